#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "frameworks/plans.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/model/model.hpp"
#include "nestplan/targets/overlap.hpp"

namespace nestplan::testing {
namespace {

const std::filesystem::path kSource = NESTPLAN_SOURCE_DIR;

/// A shipped model on the first `devices` of a shipped cluster.
Case shipped(const std::string& model_name, const std::string& cluster, std::int64_t devices,
             model::PlanOutline plan) {
  Case out;
  out.cluster = io::read_cluster(kSource / "inputs/clusters" / (cluster + ".json"));
  if (devices < out.cluster.devices()) out.cluster.limit = devices;
  out.plan = std::move(plan);
  out.plan.model = model_name;
  const std::filesystem::path file = kSource / "inputs/models" / model_name / "config.json";
  const std::string config = io::read_text(file);
  const model::Model model = io::parse_model(config, file.string());
  cost::ProfileOptions options;
  options.sequence = *out.plan.tokens;
  const model::Graph outline = cost::build_outline(model, options);
  out.job.model = model_name;
  out.job.dimensions = outline.dimensions;
  out.job.chain = model::in_a_row(outline);
  out.job.kind = frameworks::ModelKind::kDecoder;
  out.job.details = frameworks::details_of(config);
  out.job.architecture = std::get<model::Architecture>(model);
  out.job.tied_embeddings = out.job.architecture->tied_embeddings;
  out.job.sequence = *out.plan.tokens;
  out.job.devices = out.cluster.devices();
  return out;
}

std::vector<std::int64_t> with_ends(std::int64_t first, std::int64_t middle, std::int64_t count,
                                    std::int64_t last) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(count), middle);
  parts.insert(parts.begin(), first);
  parts.push_back(last);
  return parts;
}

/// As planned for `format`.
void expect_golden(Case from, const std::string& format, const std::string& name) {
  from.plan.overlap = targets::default_overlap(format == "bridge" ? "megatron" : format);
  std::ifstream file(kSource / "tests/frameworks/golden" / name);
  std::ostringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(from.settings(format).text, golden.str()) << name;
}

/// Degrees of Grattafiori et al. (arXiv 2407.21783), table 4, 16,384 devices: a layer less in the
/// first and the last stage.
TEST(Golden, Llama405B) {
  const Case from =
      shipped("llama-3.1-405b", "h100-16384", 16384,
              plan_of({.tp = 8, .dp_inner = 128, .microbatches = 16, .zero = 1, .tokens = 8192},
                      with_ends(7, 8, 14, 7)));
  expect_golden(from, "megatron", "llama-3.1-405b.megatron.sh");
  expect_golden(from, "bridge", "llama-3.1-405b.bridge.txt");
  expect_golden(from, "torchtitan", "llama-3.1-405b.torchtitan.toml");
}

/// Degrees of DeepSeek-AI (arXiv 2412.19437, section 3.2): PP 16, EP 64, ZeRO 1, no TP.
TEST(Golden, DeepSeekV3) {
  std::vector<std::int64_t> parts = with_ends(3, 4, 14, 2);
  const Case from = shipped("deepseek-v3", "h100-16384", 2048,
                            plan_of({.ep = 64,
                                     .dp_inner = 128,
                                     .microbatches = 120,
                                     .zero = 1,
                                     .recompute = model::Recompute::kSelective},
                                    parts, 1));
  expect_golden(from, "megatron", "deepseek-v3.megatron.sh");
  expect_golden(from, "bridge", "deepseek-v3.bridge.txt");
}

/// Interleaved as in Korthikanti et al. (arXiv 2205.05198), table 3, with more copies.
TEST(Golden, Gpt3) {
  const Shape shape{.tp = 8,
                    .dp_inner = 8,
                    .vpp = 6,
                    .microbatches = 192,
                    .recompute = model::Recompute::kSelective,
                    .tokens = 2048};
  const Case interleaved =
      shipped("gpt-3-175b", "selene-4480", 512, plan_of(shape, std::vector<std::int64_t>(48, 2)));
  expect_golden(interleaved, "megatron", "gpt-3-175b.megatron.sh");
  Shape plain = shape;
  plain.vpp = 1;
  plain.zero = 1;
  const Case from =
      shipped("gpt-3-175b", "selene-4480", 512, plan_of(plain, std::vector<std::int64_t>(8, 12)));
  expect_golden(from, "deepspeed", "gpt-3-175b.deepspeed.json");
}

TEST(Golden, Llama70BOnSlices) {
  Case from = shipped("llama-3.1-70b", "tpu-v5e-4x256", 1024,
                      plan_of({.tp = 8,
                               .dp_inner = 32,
                               .dp_outer = 4,
                               .microbatches = 8,
                               .zero = 3,
                               .recompute = model::Recompute::kFull,
                               .tokens = 8192},
                              {80}));
  from.job.slices = 4;
  expect_golden(from, "maxtext", "llama-3.1-70b.maxtext.yml");
}

}  // namespace
}  // namespace nestplan::testing
