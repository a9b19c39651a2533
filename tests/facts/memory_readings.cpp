#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "facts/readings.hpp"
#include "facts/recipes.hpp"
#include "nestplan/cost/memory.hpp"
#include "nestplan/util/errors.hpp"

/// How each source of memory.csv is to be read: which quantity it measured, and which recipe it
/// ran. Nothing here is fitted to a row; every constant holds for a whole source and says why.
namespace nestplan::facts {
namespace {

using model::Recompute;

constexpr double kGb = 1e9;
constexpr double kMib = 1024.0 * 1024;
constexpr double kGib = 1024 * kMib;

/// The table of facts and what it refers to.
struct Facts {
  Catalogue catalogue;
  std::vector<Row> sailor;
};

/// The largest of `stages` (all, if empty) as `quantity` counts it.
double largest(const Run& run, Quantity quantity, const std::vector<std::size_t>& stages = {}) {
  const model::MemoryReserve reserve = usual_reserve();
  const std::vector<model::StageMemory> all = account(run, reserve);
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!stages.empty() && std::find(stages.begin(), stages.end(), i) == stages.end()) continue;
    double bytes = all[i].state_bytes + all[i].activation_bytes;
    if (quantity >= Quantity::kReserved) bytes /= 1 - reserve.margin;
    if (quantity == Quantity::kDriver) bytes += all[i].reserve_bytes;
    most = std::max(most, bytes);
  }
  return most;
}

Reading whole_job(const Row& row, Run run, Quantity quantity, double unit,
                  const std::vector<std::size_t>& stages = {}) {
  Reading reading;
  reading.quantity = quantity;
  reading.published_bytes = row.number("value").value_or(0) * unit;
  reading.predicted_bytes = largest(run, quantity, stages);
  reading.device_bytes = device_bytes(row.text("gpu"));
  reading.run = std::move(run);
  return reading;
}

/// Stages on the first and the last node of eight devices.
std::vector<std::size_t> stages_on_outer_nodes(const Run& run) {
  const auto stages = static_cast<std::size_t>(run.pp);
  const auto per_node = static_cast<std::size_t>(std::max<std::int64_t>(1, 8 / run.tp()));
  std::vector<std::size_t> seen;
  for (std::size_t i = 0; i < stages; ++i) {
    if (i < per_node || i + per_node >= stages) seen.push_back(i);
  }
  return seen;
}

/// Readings of MiB are given as GB.
Reading bigscience(const Row& row, const Facts& /*facts*/) {
  if (!row.says("gbs")) return left_out("a file or an idle process, not a run");
  const Run run = bigscience_run(row);
  Reading reading = whole_job(row, run, Quantity::kDriver, 1000 * kMib, stages_on_outer_nodes(run));
  if (!row.says("layers")) reading.inferred = "blocks, from the parameters";
  return reading;
}

std::vector<std::int64_t> numbers_of(const std::string& list) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find('|', begin), list.size());
    numbers.push_back(std::stoll(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return numbers;
}

/// The same run in the table that has its stages.
const Row* sailor_details(const Row& row, const Facts& facts) {
  for (const Row& details : facts.sailor) {
    bool same = details.number("max_mem_bytes") == row.number("value");
    for (const char* column : {"model", "n_gpus", "pp", "dp"}) {
      same = same && details.text(column) == row.text(column);
    }
    if (same) return &details;
  }
  return nullptr;
}

/// Layers are counted with token table and output layer. Scores are written out, the loss reads
/// logits in fp32 (megatron/model/gpt_neo_model.py there).
Reading sailor(const Row& row, const Facts& facts) {
  const Row* details = sailor_details(row, facts);
  if (details == nullptr) return left_out("no row of sailor_measured.csv says how it was split");
  Run run = run_of(row, gpt_architecture(row, details->count("vocab", 0)));
  run.architecture.tied_embeddings = false;
  run.profile.sequence_parallel = false;
  run.profile.fused_attention = false;
  run.dp = numbers_of(row.text("dp")).front();
  run.profile.logit_bytes = kEagerLossBytes;
  run.blocks = numbers_of(details->text("layers_per_stage"));
  --run.blocks.front();
  --run.blocks.back();
  std::int64_t blocks = 0;
  for (const std::int64_t each : run.blocks) blocks += each;
  if (blocks != run.architecture.layers) {
    return left_out("its stages have " + std::to_string(blocks) + " blocks, the model " +
                    std::to_string(run.architecture.layers));
  }
  return whole_job(row, run, Quantity::kDriver, 1);
}

/// torchao's 8 bit products keep their inputs in 16 bits: 61.8 GiB with them, 62.0 without.
Reading torchtitan(const Row& row, const Facts& facts) {
  if (!row.says("mbs")) return left_out("the micro-batch of the pipeline is not stated");
  if (!row.says("recompute")) return left_out("recomputation is not stated");
  Run run = run_of(row, facts.catalogue.at(catalogue_name(row.text("model"))));
  run.dp = row.count("dp", 1);
  run.profile.vocabulary_multiple = 1;
  run.zero = 3;
  run.state = kFullyShardedFp32;
  run.profile.logit_bytes = kEagerLossBytes;
  run.gathers_tables = true;
  run.every_second_product = run.recompute == Recompute::kSelective;
  run.blocks = even_split(run.architecture.layers, 1);
  return whole_job(row, run, Quantity::kReserved, kGib);
}

/// Two samples of 2048 tokens or one of 4096 a device: a checkpoint takes 32 MiB, which is 4096
/// tokens · 4096 · 2 bytes, where the table says 2048 and a batch of eight on eight devices.
constexpr std::int64_t kGalvatronTokens = 4096;

Run galvatron_run(const Row& row, const Facts& facts) {
  Run run = run_of(row, facts.catalogue.at(catalogue_name(row.text("model"))));
  run.architecture.layers = row.count("layers", 0);
  run.profile.sequence = kGalvatronTokens;
  run.dp = row.count("dp", 1);
  run.profile.micro_batches = {run.global_batch / run.dp};
  run.zero = 3;
  run.state = kFullyShardedFp32;
  run.profile.logit_bytes = kFusedLossBytes;
  run.blocks = even_split(run.architecture.layers, run.pp);
  return run;
}

/// Megatron's sequence parallelism gathers the input of a block into a buffer that it never gives
/// back (GlobalMemoryBuffer in megatron/core/utils.py): it is there before and after, so that it
/// counts among the states and not at the peak above them.
double gather_buffer(const Run& run) {
  if (run.tp() == 1) return 0;
  return 2.0 *
         static_cast<double>(run.micro_batch() * run.profile.sequence * run.architecture.hidden);
}

Reading galvatron(const Row& row, const Facts& facts) {
  if (!row.says("layers")) return left_out("a single number without its configuration");
  const Run run = galvatron_run(row, facts);
  const std::vector<model::StageMemory> stages = account(run, {});
  const std::string& quantity = row.text("quantity");
  const bool last = has(quantity, "rank 7");
  const model::StageMemory& stage = last ? stages.back() : stages.front();
  const bool head = last || run.pp == 1;
  Reading reading;
  reading.published_bytes = row.number("value").value() * kMib;
  reading.quantity = Quantity::kActivations;
  if (has(quantity, "model states")) {
    reading.quantity = Quantity::kStates;
    reading.predicted_bytes = stage.state_bytes - stage.gathered_bytes + gather_buffer(run);
  } else if (has(quantity, "held")) {
    const double logits = 2 * logits_of(run);
    reading.predicted_bytes = stage.in_flight_bytes + (head ? logits : 0);
  } else {
    const double gathered = 2 * stage.gathered_bytes;  // weights of a layer and their gradients
    reading.predicted_bytes = stage.activation_bytes + gathered - gather_buffer(run);
  }
  return reading;
}

Run korthikanti_run(const Row& row, const Facts& facts) {
  Run run = run_of(row, facts.catalogue.at(catalogue_name(row.text("model"))));
  run.profile.fused_attention = false;
  run.blocks = even_split(run.architecture.layers, run.pp * run.vpp);
  return run;
}

/// Bytes that the blocks of the first stage keep, with what is in flight there.
double kept_by_blocks(const Run& run) {
  const model::LayerCost block = *graph_of(run).layers.at(1).costs.front();
  double kept = block.activation_bytes;
  if (run.recompute == Recompute::kSelective) kept = block.selectively_kept();
  if (run.recompute == Recompute::kFull) kept = block.checkpoint_bytes;
  double in_flight = static_cast<double>(std::min(run.pp, run.microbatches()));
  if (run.vpp > 1) {
    const cost::InFlight chunks =
        cost::interleaved_in_flight(run.pp, run.pp, run.vpp, run.microbatches());
    in_flight = static_cast<double>(chunks.chunks) / static_cast<double>(chunks.vpp);
  }
  return kept * in_flight * static_cast<double>(run.architecture.layers / run.pp);
}

Reading korthikanti(const Row& row, const Facts& facts) {
  Run run = korthikanti_run(row, facts);
  Reading reading;
  const double value = row.number("value").value();
  if (row.text("unit") == "percent") {
    Run reference = run;
    reference.recompute = Recompute::kNone;
    reference.profile.sequence_parallel = false;
    reading.quantity = Quantity::kActivations;
    reading.predicted_bytes = kept_by_blocks(run);
    reading.published_bytes = value / 100 * kept_by_blocks(reference);
    return reading;
  }
  reading.published_bytes = value * kGib;
  if (row.text("quantity") == "activations") {
    reading.quantity = Quantity::kActivations;
    reading.predicted_bytes = kept_by_blocks(run);
    return reading;
  }
  cost::StageFootprint blocks;
  blocks.parameters = static_cast<double>(run.architecture.layers / run.pp) *
                      graph_of(run).layers.at(1).costs.front()->parameters;
  reading.quantity = Quantity::kStates;
  reading.predicted_bytes = cost::state_bytes(blocks, 0, run.state, {1, 1});
  return reading;
}

Reading zero_paper(const Row& row, const Facts& /*facts*/) {
  const std::string& model = row.text("model");
  cost::StageFootprint stage;
  stage.parameters = std::stod(model) * (model.back() == 'T' ? 1e12 : 1e9);
  const int zero = row.text("zero_or_fsdp").back() - '0';
  const std::int64_t dp = row.count("dp", 1);
  Reading reading;
  reading.quantity = Quantity::kStates;
  reading.published_bytes = row.number("value").value() * kGb;
  reading.predicted_bytes = cost::state_bytes(stage, zero, {2, 2, 12}, {dp, dp});
  return reading;
}

/// DeepSpeed with Hugging Face's LLaMA. What the column measures is not stated; nvidia-smi in GiB
/// is the reading that comes closest, so that it proves nothing.
Reading zero_gist(const Row& row, const Facts& facts) {
  if (!has(row.text("zero_or_fsdp"), "no offload")) return left_out("offloads to the host");
  Run run = run_of(row, facts.catalogue.at(catalogue_name(row.text("model"))));
  run.dp = row.count("dp", 1);
  run.profile.vocabulary_multiple = 1;
  run.zero = row.text("zero_or_fsdp").at(5) - '0';
  run.state = {2, 2, 12};
  run.profile.logit_bytes = kEagerLossBytes;
  run.blocks = even_split(run.architecture.layers, 1);
  Reading reading = whole_job(row, run, Quantity::kDriver, kGib);
  reading.inferred = "what is measured";
  return reading;
}

/// The log of Llama 3.1 8B on GB300s, in decimal gigabytes: the same report shows 182.2 reserved of
/// a device with 179 GiB (tests of NVIDIA-NeMo/Megatron-Bridge, scripts/performance/utils).
Reading dgxc(const Row& row, const Facts& facts) {
  if (!row.says("layers")) return left_out("the log does not name its model");
  if (has(row.text("model"), "LoRA")) return left_out("trains adapters alone");
  Run run = run_of(row, facts.catalogue.at(catalogue_name(row.text("model"))));
  run.dp = row.count("dp", 1);
  run.zero = 1;
  run.state = kPerformanceRecipe;
  run.profile.logit_bytes = kFusedLossBytes;
  run.blocks = even_split(run.architecture.layers, 1);
  const std::string& quantity = row.text("quantity");
  Reading reading;
  if (quantity == "peak allocated") {
    reading = whole_job(row, run, Quantity::kAllocated, kGb);
  } else if (quantity == "peak reserved") {
    reading = whole_job(row, run, Quantity::kReserved, kGb);
  } else {
    reading.quantity = Quantity::kStates;
    reading.published_bytes = row.number("value").value() * kGb;
    reading.predicted_bytes = account(run, {}).front().state_bytes;
  }
  reading.inferred = "recomputation";
  return reading;
}

/// Megatron-Bridge with 8 bit products, in decimal gigabytes as above.
Reading bridge_skills(const Row& row, const Facts& facts) {
  if (!has(row.text("model"), "Llama3-70B")) return left_out("the configuration is not complete");
  if (row.text("recompute") != "none") return left_out("recomputes the MLP alone");
  Run run = run_of(row, facts.catalogue.at(catalogue_name(row.text("model"))));
  run.dp = row.count("dp", 1);
  run.profile.precision = "fp8";
  run.zero = 1;
  run.state = kPerformanceRecipe;
  run.profile.logit_bytes = kFusedLossBytes;
  run.blocks = even_split(run.architecture.layers, run.pp * run.vpp);
  return whole_job(row, run, Quantity::kAllocated, kGb);
}

Reading metis(const Row& /*row*/, const Facts& /*facts*/) {
  return left_out("neither width nor sequence is stated");
}

/// The recipe's recomputation is not stated; taken for none.
Reading bridge(const Row& row, const Facts& facts) {
  Run run = run_of(row, facts.catalogue.at(catalogue_name(row.text("model"))));
  run.dp = row.count("dp", 1);
  run.profile.ep = {row.count("ep", 1)};
  run.zero = 1;
  run.state = kPerformanceRecipe;
  run.profile.logit_bytes = kFusedLossBytes;
  run.blocks = even_split(run.architecture.layers, 1);
  Reading reading = whole_job(row, run, Quantity::kAllocated, kGib);
  reading.inferred = "recomputation";
  return reading;
}

using Reader = std::function<Reading(const Row&, const Facts&)>;

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all{{"bigscience", bigscience},
                                                 {"sailor", sailor},
                                                 {"torchtitan", torchtitan},
                                                 {"galvatron", galvatron},
                                                 {"korthikanti22", korthikanti},
                                                 {"zero_paper", zero_paper},
                                                 {"zero_gist", zero_gist},
                                                 {"dgxc_logs", dgxc},
                                                 {"bridge_skills", bridge_skills},
                                                 {"metis", metis},
                                                 {"bridge", bridge}};
  return all;
}

}  // namespace

std::vector<Reading> memory_readings(const std::filesystem::path& facts) {
  const Facts known{Catalogue(facts / "models.json"), read_table(facts / "sailor_measured.csv")};
  std::vector<Reading> readings;
  for (const Row& row : read_table(facts / "memory.csv")) {
    const std::string& source = row.text("source_id");
    const auto reader = readers().find(source);
    Reading reading = reader == readers().end() ? left_out("a source that nobody has read yet")
                                                : reader->second(row, known);
    reading.source = source;
    reading.name = source + " " + std::to_string(row.index());
    readings.push_back(std::move(reading));
  }
  return readings;
}

}  // namespace nestplan::facts
