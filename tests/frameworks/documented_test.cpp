#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "frameworks/plans.hpp"
#include "nestplan/frameworks/frameworks.hpp"
#include "nestplan/targets/layout.hpp"
#include "nestplan/util/errors.hpp"
#include "support/seeds.hpp"

/// What the documentation of a framework asks of its settings, checked on exported ones by other
/// parsers than the product's.
namespace nestplan::testing {
namespace {

using Json = nlohmann::json;

/// Calls `check(text, case)` for every random plan that `format` can be told, or comes near to.
template <typename Check>
void for_exports(const std::string& format, Check check) {
  std::uint64_t checked = 0;
  for (std::uint64_t seed = 0; seed < seeds(1500); ++seed) {
    Dice dice(seed);
    const Case from = random_case(dice, format == "maxtext");
    std::string text;
    try {
      text = from.settings(format, true).text;
    } catch (const InvalidInput&) {
      continue;
    } catch (const InvalidConfig&) {
      continue;
    }
    SCOPED_TRACE(text);
    check(text, from);
    ++checked;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(checked, 20U);
}

std::int64_t ranks_of(const Case& from) { return std::ssize(from.placed().seats); }

/// Arguments of the array, by flag; "" for switches.
std::map<std::string, std::string> arguments_of(const std::string& text) {
  std::map<std::string, std::string> arguments;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  --")) continue;
    const std::size_t space = line.find(' ', 4);
    std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (value.starts_with('\'')) value = value.substr(1, value.size() - 2);
    EXPECT_TRUE(arguments.emplace(line.substr(4, space - 4), value).second) << line << " twice";
  }
  return arguments;
}

/// NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args.
TEST(Documented, MegatronArguments) {
  for_exports("megatron", [](const std::string& text, const Case& from) {
    auto a = arguments_of(text);
    const auto number = [&](const char* flag) { return std::stoll(a.at(flag)); };
    const auto has = [&](const char* flag) { return a.contains(flag); };
    const std::int64_t tp = number("tensor-model-parallel-size");
    const std::int64_t pp = number("pipeline-model-parallel-size");
    const std::int64_t cp = number("context-parallel-size");
    const std::int64_t ep = number("expert-model-parallel-size");
    ASSERT_EQ(ranks_of(from) % (tp * pp * cp), 0);
    const std::int64_t dp = ranks_of(from) / (tp * pp * cp);
    EXPECT_EQ(number("global-batch-size") % (number("micro-batch-size") * dp), 0);
    if (has("expert-tensor-parallel-size")) {
      EXPECT_EQ(ranks_of(from) % (number("expert-tensor-parallel-size") * ep * pp), 0);
    }
    const int ways = int(has("num-layers-per-virtual-pipeline-stage")) +
                     int(has("num-virtual-stages-per-pipeline-rank")) +
                     int(has("pipeline-model-parallel-layout"));
    EXPECT_LE(ways, 1);
    if (has("pipeline-model-parallel-layout")) {
      const auto layout = targets::parse_megatron_layout(a.at("pipeline-model-parallel-layout"));
      const auto parts = static_cast<std::int64_t>(layout.size());
      ASSERT_EQ(parts % pp, 0);
      const std::int64_t mtp = has("mtp-num-layers") ? number("mtp-num-layers") : 0;
      EXPECT_NO_THROW(targets::check_layout(layout, number("num-layers"), mtp, pp, parts / pp));
      EXPECT_FALSE(has("decoder-first-pipeline-num-layers"));
    } else if (!has("decoder-first-pipeline-num-layers")) {
      const std::int64_t vpp = has("num-virtual-stages-per-pipeline-rank")
                                   ? number("num-virtual-stages-per-pipeline-rank")
                                   : 1;
      EXPECT_EQ(number("num-layers") % (pp * vpp), 0);
    }
    if (has("sequence-parallel")) {
      EXPECT_GT(tp, 1);
    }
    if (has("overlap-param-gather")) {
      EXPECT_TRUE(has("use-distributed-optimizer"));
      EXPECT_TRUE(has("overlap-grad-reduce"));
    }
    if (has("num-distributed-optimizer-instances")) {
      EXPECT_TRUE(has("use-distributed-optimizer"));
      EXPECT_EQ(dp % number("num-distributed-optimizer-instances"), 0);
    }
    if (has("recompute-method")) {
      EXPECT_EQ(a.at("recompute-granularity"), "full");
      EXPECT_FALSE(has("recompute-modules"));
    }
    if (has("use-megatron-fsdp")) {
      EXPECT_EQ(a.at("ckpt-format"), "fsdp_dtensor");
      EXPECT_EQ(text.find("CUDA_DEVICE_MAX_CONNECTIONS=1\n"), std::string::npos);
    } else if (has("overlap-moe-expert-parallel-comm")) {
      EXPECT_NE(text.find("CUDA_DEVICE_MAX_CONNECTIONS=32"), std::string::npos);
    } else {
      EXPECT_EQ(text.find("CUDA_DEVICE_MAX_CONNECTIONS=1\n") != std::string::npos,
                tp > 1 || cp > 1);
    }
    // "Tensor parallel communication/GEMM overlap can happen only when sequence parallelism is
    // enabled"
    if (has("tp-comm-overlap")) {
      EXPECT_TRUE(has("sequence-parallel"));
    }
    // megatron/core/transformer/transformer_config.py on overlap_moe_expert_parallel_comm
    if (has("overlap-moe-expert-parallel-comm")) {
      EXPECT_GT(ep, 1);
      EXPECT_EQ(a.at("moe-token-dispatcher-type"), "alltoall");
      EXPECT_FALSE(has("recompute-method"));
      EXPECT_TRUE(has("bf16") || has("fp16"));
      const bool chunks = has("num-virtual-stages-per-pipeline-rank") ||
                          (has("pipeline-model-parallel-layout") && from.plan.vpp > 1);
      EXPECT_TRUE(pp == 1 || chunks);
    }
    // "Expert parallelism is not supported with fp16 training."
    if (ep > 1) {
      EXPECT_FALSE(has("fp16"));
    }
    if (has("fp8-format")) {
      EXPECT_TRUE(has("bf16"));
    }
    // TransformerEngine's MXFP8BlockScaling has E4M3 in both directions.
    if (has("fp8-recipe")) {
      EXPECT_EQ(a.at("fp8-recipe"), "mxfp8");
      EXPECT_EQ(a.at("fp8-format"), "e4m3");
    }
    // "seq-length should be a multiple of 2 * context-parallel-size"
    if (cp > 1) {
      EXPECT_EQ(number("seq-length") % (2 * cp), 0);
    }
  });
}

/// A directory of its own for the test that runs.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "frameworks.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~Scratch() { std::filesystem::remove_all(path_); }

  /// What a shell command prints there. Empty if it fails.
  std::string output_of(const std::string& command) const {
    const std::string file = (path_ / "out").string();
    const std::string line =
        "cd '" + path_.string() + "' && { " + command + "; } >'" + file + "' 2>&1";
    const bool done = std::system(line.c_str()) == 0;
    std::ifstream in(file);
    std::ostringstream text;
    text << in.rdbuf();
    EXPECT_TRUE(done) << text.str();
    return done ? text.str() : "";
  }

  void write(const char* name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }

 private:
  std::filesystem::path path_;
};

/// A shell makes the words of the array that the lines show.
TEST(Documented, MegatronArrayIsBash) {
  const Scratch scratch;
  std::uint64_t seed = 0;
  for (int shells = 0; shells < 20; ++seed) {
    Dice dice(seed);
    const Case from = random_case(dice, false);
    std::string text;
    try {
      text = from.settings("megatron", true).text;
    } catch (const InvalidInput&) {
      continue;
    } catch (const InvalidConfig&) {
      continue;
    }
    ++shells;
    scratch.write("settings.sh", text);
    const std::string words = scratch.output_of(
        "bash -n settings.sh && bash -euc 'source ./settings.sh; printf \"%s\\n\" "
        "\"${MEGATRON_ARGS[@]}\"'");
    std::string expected;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  --")) continue;
      const std::size_t space = line.find(' ', 4);
      expected += line.substr(2, space - 2) + '\n';
      if (space == std::string::npos) continue;
      std::string value = line.substr(space + 1);
      if (value.starts_with('\'')) value = value.substr(1, value.size() - 2);
      expected += value + '\n';
    }
    EXPECT_EQ(words, expected) << text;
  }
}

/// Every argument of Megatron-LM becomes the field of the same meaning, and no field is left to the
/// recipe that it overrides.
TEST(Documented, BridgeSaysEveryField) {
  std::set<std::string> fields;
  for_exports("bridge", [&](const std::string& text, const Case&) {
    std::set<std::string> here;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with('#')) continue;
      ASSERT_NE(line.find('='), std::string::npos) << line;
      EXPECT_TRUE(here.insert(line.substr(0, line.find('='))).second) << line << " twice";
      const std::string value = line.substr(line.find('=') + 1);
      const bool is_quoted = value.starts_with('"') && value.ends_with('"');
      EXPECT_EQ(value.find_first_of("(|*") != std::string::npos, is_quoted) << line;
    }
    for (const char* field : {"model.tensor_model_parallel_size", "model.sequence_parallel",
                              "model.pipeline_model_parallel_layout", "ddp.use_megatron_fsdp",
                              "model.virtual_pipeline_model_parallel_size",
                              "model.recompute_granularity", "mixed_precision"}) {
      EXPECT_TRUE(here.contains(field)) << field;
    }
  });
}

/// deepspeed.ai/docs/config-json: train_batch_size = micro-batch · accumulation · data-parallel
/// ranks; deepspeed.ai/tutorials/autotp-training: ZeRO 0 to 2; Ulysses without tp and pp.
TEST(Documented, DeepSpeedFile) {
  std::uint64_t automatic = 0;
  for_exports("deepspeed", [&](const std::string& text, const Case& from) {
    const Json file = Json::parse(text);
    const std::int64_t dp = from.plan.dp();
    EXPECT_EQ(file.at("train_batch_size"),
              file.at("train_micro_batch_size_per_gpu").get<std::int64_t>() *
                  file.at("gradient_accumulation_steps").get<std::int64_t>() * dp);
    const Json& zero = file.at("zero_optimization");
    const int stage = zero.at("stage");
    std::set<std::string> words;
    if (file.at("nestplan").contains("arguments")) {
      for (const Json& word : file["nestplan"]["arguments"]) words.insert(word.get<std::string>());
      EXPECT_FALSE(file.contains("tensor_parallel"));
    } else if (!file.contains("sequence_parallel_size")) {
      ++automatic;
      EXPECT_LE(stage, 2);
      EXPECT_GT(file.at("tensor_parallel").at("autotp_size"), 1);
      EXPECT_FALSE(file.contains("pipeline"));
    }
    if (file.contains("pipeline")) {
      EXPECT_LE(stage, 1);
      EXPECT_FALSE(file.contains("sequence_parallel_size"));
    }
    if (file.contains("sequence_parallel_size")) {
      EXPECT_EQ(from.plan.stages.front().tp, 1);
      EXPECT_FALSE(words.contains("--sequence-parallel"));
    }
    const bool experts = words.contains("--moe-expert-parallel-size");
    EXPECT_EQ(words.contains("--no-pipeline-parallel"), !words.empty() && (stage >= 2 || experts));
    // examples_deepspeed/MoE: "Currently we don't support PP for MoE"
    EXPECT_FALSE(experts && file.contains("pipeline"));
    // deepspeed/runtime/zero/config.py: of ZeRO, and with a pipeline gradients are reduced at its
    // end (deepspeed/runtime/pipe/engine.py, _exec_reduce_grads).
    if (zero.contains("overlap_comm")) {
      EXPECT_GE(stage, 1);
      EXPECT_FALSE(file.contains("pipeline"));
    }
    if (zero.contains("mics_shard_size")) {
      EXPECT_EQ(stage, 3);
      EXPECT_EQ(dp * from.plan.stages.front().cp % zero["mics_shard_size"].get<std::int64_t>(), 0);
    }
    EXPECT_FALSE(file.contains("bf16") && file.contains("fp16"));
  });
  EXPECT_GT(automatic, 0U);
}

/// pytorch/torchtitan torchtitan/distributed/parallel_dims.py (product of the degrees, EP) and
/// pipeline_parallel.py (parts of the model, micro-batches of the local batch).
TEST(Documented, TorchtitanFile) {
  for_exports("torchtitan", [](const std::string& text, const Case& from) {
    const toml::table file = toml::parse(text);
    const auto number = [&](const char* path) {
      return file.at_path(path).value<std::int64_t>().value();
    };
    const std::int64_t replicas = number("parallelism.data_parallel_replicate_degree");
    const std::int64_t shards = number("parallelism.data_parallel_shard_degree");
    const std::int64_t tp = number("parallelism.tensor_parallel_degree");
    const std::int64_t cp = number("parallelism.context_parallel_degree");
    const std::int64_t pp = number("parallelism.pipeline_parallel_degree");
    EXPECT_EQ(replicas * shards * tp * cp * pp, ranks_of(from));
    EXPECT_EQ(shards * cp * tp % number("parallelism.expert_parallel_degree"), 0);
    // models/common/decoder.py: "MoE models require expert_parallel_degree … to be greater than or
    // equal to tensor_parallel_degree"
    const bool experts = from.plan.stages.front().ep > 1;
    EXPECT_TRUE(!experts || number("parallelism.expert_parallel_degree") >= tp);
    // models/llama3/infra/parallelize.py: "DDP has not supported > 1D parallelism"
    const bool fsdp = shards > 1 || cp > 1;
    if (!fsdp && replicas > 1) {
      EXPECT_EQ(tp * pp, 1);
    }
    // distributed/utils.py: "Mixed precision training with TP or PP is only supported when
    // FSDP/HSDP/CP is enabled."
    if (!fsdp && tp * pp > 1) {
      EXPECT_EQ(file.at_path("training.mixed_precision_param").value<std::string>(), "float32");
    }
    // "currently only effective when compile is enabled"
    if (file.at_path("parallelism.enable_async_tensor_parallel").value_or(false)) {
      EXPECT_GT(tp, 1);
      EXPECT_TRUE(file.at_path("compile.enable").value_or(false));
    }
    EXPECT_EQ(number("training.global_batch_size") %
                  (number("training.local_batch_size") * replicas * shards),
              0);
    if (pp == 1) {
      EXPECT_FALSE(file.at_path("parallelism.module_fqns_per_model_part").is_array());
      return;
    }
    EXPECT_EQ(number("training.global_batch_size"),
              number("training.local_batch_size") * replicas * shards);
    const std::int64_t size = number("parallelism.pipeline_parallel_microbatch_size");
    EXPECT_EQ(number("training.local_batch_size") % size, 0);
    const toml::array& parts = *file.at_path("parallelism.module_fqns_per_model_part").as_array();
    const auto schedule =
        file.at_path("parallelism.pipeline_parallel_schedule").value<std::string>();
    ASSERT_EQ(static_cast<std::int64_t>(parts.size()) % pp, 0);
    EXPECT_EQ(static_cast<std::int64_t>(parts.size()) > pp, schedule == "Interleaved1F1B");
    std::vector<std::string> modules;
    for (const toml::node& part : parts) {
      EXPECT_FALSE(part.as_array()->empty());
      for (const toml::node& module : *part.as_array()) {
        modules.push_back(module.value<std::string>().value());
      }
    }
    EXPECT_EQ(modules.front(), "tok_embeddings");
    EXPECT_EQ(modules.back(), "output");
    EXPECT_EQ(modules[modules.size() - 2], "norm");
    for (std::size_t i = 1; i + 2 < modules.size(); ++i) {
      EXPECT_EQ(modules[i], "layers." + std::to_string(i - 1));
    }
  });
}

/// AI-Hypercomputer/maxtext base.yml: axes over slices make their number, the others the chips of
/// one; layers are stages · layers of a stage · repeats; micro-batches are a multiple of stages.
TEST(Documented, MaxTextFile) {
  for_exports("maxtext", [](const std::string& text, const Case& from) {
    std::map<std::string, std::string> entries;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with('#')) continue;
      const std::size_t colon = line.find(": ");
      ASSERT_NE(colon, std::string::npos) << line;
      EXPECT_TRUE(entries.emplace(line.substr(0, colon), line.substr(colon + 2)).second);
    }
    std::int64_t slices = 1;
    std::int64_t chips = 1;
    for (const auto& [key, value] : entries) {
      if (key.starts_with("dcn_")) slices *= std::stoll(value);
      if (key.starts_with("ici_")) chips *= std::stoll(value);
    }
    EXPECT_EQ(slices, from.job.slices);
    std::int64_t predictions = 0;
    for (const std::string& id : from.plan.stages.back().chunks.back()) {
      predictions += id.starts_with("mtp.") ? 1 : 0;
    }
    EXPECT_EQ(entries.contains("mtp_num_layers") ? std::stoll(entries["mtp_num_layers"]) : 0,
              predictions);
    EXPECT_EQ(slices * chips, ranks_of(from));
    const double batch = std::stod(entries.at("per_device_batch_size")) *
                         static_cast<double>(ranks_of(from)) *
                         std::stod(entries.at("gradient_accumulation_steps"));
    EXPECT_EQ(static_cast<std::int64_t>(batch), *from.plan.global_batch);
    if (entries.contains("num_pipeline_microbatches")) {
      const std::int64_t stages = std::ssize(from.plan.stages);
      EXPECT_EQ(std::stoll(entries["num_pipeline_microbatches"]) % stages, 0);
      std::int64_t layers = 0;
      for (const auto& stage : from.plan.stages) {
        for (const auto& chunk : stage.chunks) {
          for (const std::string& id : chunk) layers += id.starts_with("layer.") ? 1 : 0;
        }
      }
      EXPECT_EQ(stages * std::stoll(entries.at("num_layers_per_pipeline_stage")) *
                    std::stoll(entries.at("num_pipeline_repeats")),
                layers);
    }
  });
}

}  // namespace
}  // namespace nestplan::testing
