#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "facts/table.hpp"
#include "nestplan/cost/profile.hpp"

/// Predicted times of a transformer block beside measured ones.
namespace nestplan::facts {
namespace {

// What holds, with a little room.
constexpr double kMostMedian = 0.30;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

/// Of the peak in tf32, what a block may reach.
constexpr double kMostOfTf32 = 0.8;

/// The source does not say in which precision it measured: the first of fp32, tf32 and bf16 that
/// can be as fast as the fastest block of a model on a device.
struct Accelerator {
  const char *gpu, *name;
  double fp32_tflops, tf32_tflops, bf16_tflops, memory_gbps;
};
constexpr Accelerator kAccelerators[] = {
    {"A100-40", "A100", 19.5, 156, 312, 1555},     {"A100-80", "A100", 19.5, 156, 312, 2039},
    {"GH-96", "GH200", 67, 494, 989, 4000},        {"V100-16", "V100", 15.7, 15.7, 125, 900},
    {"RTX-3090", "RTX 3090", 35.6, 35.6, 71, 936}, {"Titan-RTX", "Titan RTX", 16.3, 16.3, 65, 672},
    {"RTX-2080", "RTX 2080", 10.1, 10.1, 40, 448}};

model::Device device_of(const std::string& gpu) {
  for (const Accelerator& accelerator : kAccelerators) {
    if (gpu != accelerator.gpu) continue;
    model::Device device;
    device.name = accelerator.name;
    device.memory_bytes = 1;
    device.peak_flops = {{"fp32", kTera * accelerator.fp32_tflops},
                         {"tf32", kTera * accelerator.tf32_tflops},
                         {"bf16", kTera * accelerator.bf16_tflops}};
    device.memory_bandwidth = kGiga * accelerator.memory_gbps;
    return device;
  }
  return {};
}

model::Architecture architecture_of(const Row& row, std::int64_t layers = 1) {
  model::Architecture a;
  a.name = a.family = row.text("model");
  a.layers = layers;
  a.hidden = row.count("hidden", 0);
  a.heads = a.kv_heads = row.count("heads", 0);
  a.head_dim = a.hidden / a.heads;
  a.ffn = 4 * a.hidden;
  a.vocab = row.count("vocab", 0);
  if (a.name.starts_with("LLAMA")) {
    a.kv_heads = 8;
    a.ffn = 14336;
    a.gated_mlp = a.rotary = true;
    a.norm = model::NormKind::kRmsNorm;
  } else {
    a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
    a.hidden_dropout = true;
  }
  return a;
}

struct Block {
  std::string of;  ///< device and model
  double forward_s, backward_s;
  double flops;  ///< forward
  Row row;
};

/// On one device, so that no messages are in it. The rows of OPT-350 on GH-96 repeat those of
/// GPT-Neo-2.7, a model of eight times its size.
std::vector<Block> blocks_of(const std::filesystem::path& facts) {
  std::vector<Block> blocks;
  for (const Row& row : read_table(facts / "layer_profiles.csv")) {
    const std::string of = row.text("gpu") + " " + row.text("model");
    if (!row.says("block_fwd_ms") || row.count("tp", 1) != 1 || of == "GH-96 OPT-350") continue;
    const std::int64_t sequence = row.count("seq", 0);
    const double flops = cost::model_flops_per_sample(architecture_of(row, 2), sequence) -
                         cost::model_flops_per_sample(architecture_of(row, 1), sequence);
    const double sequences = static_cast<double>(row.count("mbs", 1));
    blocks.push_back({of, 1e-3 * *row.number("block_fwd_ms"), 1e-3 * *row.number("block_bwd_ms"),
                      flops / 3 * sequences, row});
  }
  return blocks;
}

/// By device and model.
std::map<std::string, std::string> precisions(const std::vector<Block>& blocks) {
  std::map<std::string, double> most;
  std::map<std::string, std::string> gpus, precision;
  for (const Block& block : blocks) {
    most[block.of] = std::max(most[block.of], block.flops / block.forward_s);
    gpus[block.of] = block.row.text("gpu");
  }
  for (const auto& [of, flops] : most) {
    const model::Device device = device_of(gpus.at(of));
    precision[of] = "bf16";
    if (flops < kMostOfTf32 * device.peak_flops.at("tf32")) precision[of] = "tf32";
    if (flops < device.peak_flops.at("fp32")) precision[of] = "fp32";
  }
  return precision;
}

double predicted_s(const Block& block, const std::string& precision, bool forward) {
  cost::ProfileOptions options;
  options.sequence = block.row.count("seq", 0);
  options.tp = {1};
  options.micro_batches = {block.row.count("mbs", 1)};
  options.precision = precision;
  options.fused_attention = false;
  const model::Graph graph =
      cost::build_graph(architecture_of(block.row), device_of(block.row.text("gpu")), options);
  const model::LayerCost& cost = *graph.layers[1].costs.front();
  return forward ? cost.forward_s : cost.backward_s;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(LayerProfiles, BlocksTakeAboutAsLongAsTheyAreMeasuredTo) {
  const auto facts = directory();
  if (!facts) GTEST_SKIP() << "there are no published facts beside the checkout";
  const std::vector<Block> blocks = blocks_of(*facts);
  const std::map<std::string, std::string> precision = precisions(blocks);
  std::map<std::string, std::vector<double>> forward, backward;
  std::vector<double> sizes;
  for (const Block& block : blocks) {
    const std::string& in = precision.at(block.of);
    const double f = predicted_s(block, in, true) / block.forward_s - 1;
    const double b = predicted_s(block, in, false) / block.backward_s - 1;
    forward[block.of].push_back(f);
    backward[block.of].push_back(b);
    sizes.push_back(std::abs(f));
    sizes.push_back(std::abs(b));
  }
  for (const auto& [of, errors] : forward) {
    std::printf("%-24s %-5s %2zu rows   median forward %+6.1f %%, backward %+6.1f %%\n", of.c_str(),
                precision.at(of).c_str(), errors.size(), 100 * median(errors),
                100 * median(backward.at(of)));
  }
  std::printf("all: %zu times, %.1f %% off in the median\n", sizes.size(), 100 * median(sizes));
  EXPECT_GT(sizes.size(), 80U);
  EXPECT_LE(median(sizes), kMostMedian);
}

}  // namespace
}  // namespace nestplan::facts
