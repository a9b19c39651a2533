#include "nestplan/calibrate/measurements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "nestplan/cost/device_models.hpp"
#include "nestplan/cost/device_times.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/util/csv.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/letters.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::calibrate {
namespace {

constexpr std::int64_t kMostCount = 1'000'000'000;
constexpr double kMostSeconds = 1e9;
constexpr double kMostTokens = 1e15;

const std::vector<std::string> kCommon{
    "model",     "seq",       "micro_batch",       "tp",     "cp",    "ep",  "etp",
    "precision", "attention", "sequence_parallel", "device", "group", "note"};
const std::vector<std::string> kOfRuns{"global_batch", "devices",     "pp",
                                       "vpp",          "dp",          "zero",
                                       "recompute",    "iteration_s", "tokens_per_s"};
const std::vector<std::string> kOfLayers{"layer", "granularity", "forward_s", "backward_s"};

/// A row by its columns; what is wrong in a cell is told with file, line and column.
class Line {
 public:
  Line(const util::Csv& csv, const util::Csv::Row& row, const std::string& file)
      : where_(fmt::format("{}:{}", file, row.line)) {
    for (std::size_t i = 0; i < csv.columns.size(); ++i) {
      if (!row.cells[i].empty()) cells_[csv.columns[i]] = row.cells[i];
    }
  }

  const std::string& where() const { return where_; }
  const std::map<std::string, std::string>& cells() const { return cells_; }

  [[noreturn]] void fail(const std::string& column, const std::string& problem) const {
    throw InvalidInput(fmt::format("{}: {}: {}", where_, column, problem));
  }

  bool has(const std::string& column) const { return cells_.contains(column); }

  std::string text(const std::string& column) const {
    if (!has(column)) fail(column, "is missing");
    return cells_.at(column);
  }

  std::string text(const std::string& column, const std::string& fallback) const {
    return has(column) ? cells_.at(column) : fallback;
  }

  /// A word of `known`.
  std::string word(const std::string& column, const std::vector<std::string>& known) const {
    const std::string word = text(column, known.front());
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      fail(column, fmt::format("unknown {}{}", util::quoted(word), util::hint(word, known)));
    }
    return word;
  }

  std::int64_t count(const std::string& column, std::int64_t least = 1) const {
    const std::string cell = text(column);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size() || value < least ||
        value > kMostCount) {
      fail(column,
           fmt::format("{} is not a whole number of at least {}", util::quoted(cell), least));
    }
    return value;
  }

  std::int64_t count_or(const std::string& column, std::int64_t fallback) const {
    return has(column) ? count(column) : fallback;
  }

  /// A number above 0.
  std::optional<double> amount(const std::string& column, double most) const {
    if (!has(column)) return std::nullopt;
    const std::string& cell = cells_.at(column);
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    const bool number = error == std::errc{} && end == cell.data() + cell.size();
    if (!number || !(value > 0) || !(value <= most)) {
      fail(column,
           fmt::format("{} is not a number above 0 (and up to {})", util::quoted(cell), most));
    }
    return value;
  }

  /// `make` of the line; what it refuses is told with the line.
  template <typename Make>
  auto located(Make make) const {
    try {
      return make();
    } catch (const Error& error) {
      throw InvalidInput(fmt::format("{}: {}", where_, error.what()));
    }
  }

 private:
  std::string where_;
  std::map<std::string, std::string> cells_;
};

void check_columns(const util::Csv& csv, const std::string& file,
                   const std::vector<std::string>& own, const std::vector<std::string>& needed) {
  std::vector<std::string> known = kCommon;
  known.insert(known.end(), own.begin(), own.end());
  for (const std::string& column : csv.columns) {
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    throw InvalidInput(fmt::format("{}: unknown column {}{}", file, util::quoted(column),
                                   util::hint(column, known)));
  }
  for (const std::string& column : needed) {
    if (std::find(csv.columns.begin(), csv.columns.end(), column) != csv.columns.end()) continue;
    throw InvalidInput(fmt::format("{}: there is no column {}", file, util::quoted(column)));
  }
}

/// The one column of the graph that a line is about.
cost::ProfileOptions profile_of(const Line& line, const model::Model& model) {
  cost::ProfileOptions options;
  if (line.has("seq") || has_sequence(model)) options.sequence = line.count("seq");
  options.tp = {line.count_or("tp", 1)};
  options.cp = {line.count_or("cp", 1)};
  options.ep = {line.count_or("ep", 1)};
  if (line.has("etp")) options.etp = {line.count("etp")};
  options.micro_batches = {line.count_or("micro_batch", 1)};
  options.precision = line.text("precision", "bf16");
  const std::string attention = line.word("attention", {"fused", "flash1", "flash2", "unfused"});
  options.fused_attention = attention != "unfused";
  options.attention_kernel = cost::attention_kernel_of(attention);
  options.sequence_parallel = line.word("sequence_parallel", {"yes", "no"}) == "yes";
  return options;
}

/// A table of several devices must not be fitted as one.
void check_device(const Line& line, const model::Device& device) {
  if (!line.has("device") || util::lower(line.text("device")) == util::lower(device.name)) return;
  line.fail("device",
            fmt::format("{} is not {}, which is calibrated: leave out the lines of other devices",
                        util::quoted(line.text("device")), util::quoted(device.name)));
}

/// Loads every model once.
class Models {
 public:
  explicit Models(const Setting& setting) : setting_(setting) {}

  std::shared_ptr<const model::Model> of(const Line& line) {
    const std::string name = line.text("model");
    auto& model = models_[name];
    if (model == nullptr) {
      model = std::make_shared<const model::Model>(
          line.located([&] { return setting_.load_model(name); }));
    }
    return model;
  }

 private:
  const Setting& setting_;
  std::map<std::string, std::shared_ptr<const model::Model>> models_;
};

/// What tells a row from others, but for what was measured.
std::string group_of(const Line& line) {
  if (line.has("group")) return line.text("group");
  std::string group;
  for (const auto& [column, cell] : line.cells()) {
    if (column.ends_with("_s") || column == "note") continue;
    group += column + '=' + cell + '\n';
  }
  return group;
}

std::string degrees_text(const Line& line) {
  std::string text;
  for (const char* column : {"tp", "pp", "vpp", "dp", "cp", "ep"}) {
    if (line.has(column) && line.text(column) != "1")
      text += fmt::format(" {}{}", column, line.text(column));
  }
  return text + fmt::format(" mb{}", line.text("micro_batch", "1"));
}

model::Device with(model::Device device, const model::DeviceModel& parameters) {
  device.model = parameters;
  return device;
}

/// Layers in `parts` runs, embedding and head among them; the blocks in equal numbers, or one more
/// in the first ones if they do not divide. No more parts than blocks.
std::vector<std::vector<int>> equal_parts(const model::Graph& graph, std::int64_t parts) {
  const std::int64_t blocks = model::counted_layers(graph);
  const std::int64_t least = blocks / parts;
  const std::int64_t in_larger = blocks % parts * (least + 1);
  const auto part_of = [&](std::int64_t block) {
    return block < in_larger ? block / (least + 1) : blocks % parts + (block - in_larger) / least;
  };
  std::vector<std::vector<int>> split(static_cast<std::size_t>(parts));
  std::int64_t block = 0;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    // What follows the last block is in its part.
    const std::int64_t part = part_of(std::min(block, blocks - 1));
    split[static_cast<std::size_t>(part)].push_back(static_cast<int>(layer));
    if (graph.layers[layer].counted) ++block;
  }
  return split;
}

/// A run on its cluster.
struct Run {
  std::shared_ptr<const model::Model> model;
  cost::ProfileOptions profile;
  model::Problem problem;  ///< without the graph
  std::shared_ptr<const network::Network> network;
  std::int64_t pp = 1, vpp = 1, dp = 1;
  model::Recompute recompute = model::Recompute::kNone;
  int zero = 1;

  cost::PlacedPlan plan(const model::Graph& graph) const {
    const std::vector<std::vector<int>> parts = equal_parts(graph, pp * vpp);
    const std::int64_t unit = profile.tp.front() * profile.cp.front() * dp;
    cost::PlacedPlan plan;
    plan.dp = plan.dp_inner = dp;
    for (std::int64_t i = 0; i < pp; ++i) {
      cost::PlacedStage stage;
      stage.position = i * unit;
      stage.recompute = recompute;
      stage.zero = zero;
      for (std::int64_t chunk = 0; chunk < vpp; ++chunk) {
        const std::vector<int>& layers = parts[static_cast<std::size_t>(chunk * pp + i)];
        stage.layers.insert(stage.layers.end(), layers.begin(), layers.end());
        if (vpp > 1) stage.chunks.push_back(layers);
      }
      plan.stages.push_back(std::move(stage));
    }
    return plan;
  }

  /// Whether it fits into memory is not asked: it ran.
  model::Plan evaluate(const model::DeviceModel& parameters) const {
    model::Problem whole = problem;
    whole.cluster.device.model = parameters;
    whole.graph = cost::build_graph(*model, whole.cluster, profile);
    return cost::evaluate(whole, *network, plan(whole.graph));
  }
};

/// Degree of data parallelism; the degrees multiply to the devices.
std::int64_t data_parallel(const Line& line, std::int64_t devices) {
  std::int64_t others = 1;
  for (const char* column : {"tp", "cp", "pp"}) {
    const std::int64_t degree = line.count_or(column, 1);
    if (degree > devices / others) {
      line.fail(column, fmt::format("{} is more than {} devices have room for", degree, devices));
    }
    others *= degree;
  }
  if (devices % others != 0) {
    line.fail("devices", fmt::format("{} is no multiple of tp·cp·pp = {}", devices, others));
  }
  const std::int64_t dp = line.count_or("dp", devices / others);
  if (dp * others != devices) {
    line.fail("dp",
              fmt::format("tp·cp·pp·dp is {}, but there are {} devices", dp * others, devices));
  }
  return dp;
}

void check_batch(const Line& line, std::int64_t step) {
  if (line.count("global_batch") % step == 0) return;
  line.fail("global_batch", fmt::format("{} is no multiple of dp·micro_batch = {}",
                                        line.text("global_batch"), step));
}

/// Interleaved stages need others, and micro-batches that are a multiple of them.
void check_chunks(const Line& line, const Run& run, std::int64_t microbatches) {
  if (run.vpp == 1 || (run.pp > 1 && microbatches % run.pp == 0)) return;
  line.fail("vpp", fmt::format("{} with pp {} and {} micro-batches: interleaving takes several "
                               "stages, and a multiple of them in micro-batches",
                               run.vpp, run.pp, microbatches));
}

void check_parts(const Line& line, const Run& run, const model::Graph& graph) {
  const std::int64_t blocks = model::counted_layers(graph);
  if (run.vpp <= blocks / run.pp) return;
  line.fail("pp",
            fmt::format("pp·vpp is {}·{}, but the model has {} blocks", run.pp, run.vpp, blocks));
}

std::shared_ptr<Run> run_of(const Line& line, const Setting& setting, Models& models) {
  auto run = std::make_shared<Run>();
  run->model = models.of(line);
  run->profile = profile_of(line, *run->model);
  run->problem.cluster = setting.cluster;
  const std::int64_t there = setting.cluster.devices();
  const std::int64_t devices = line.count_or("devices", there);
  if (devices > there) {
    line.fail("devices", fmt::format("{}, but the cluster has {}", devices, there));
  }
  if (devices < there) run->problem.cluster.limit = devices;
  run->pp = line.count_or("pp", 1);
  run->vpp = line.count_or("vpp", 1);
  run->dp = data_parallel(line, devices);
  run->recompute = model::parse_recompute(line.word("recompute", model::recompute_names()));
  if (line.has("zero")) run->zero = static_cast<int>(line.count("zero", 0));
  if (run->zero > 3) line.fail("zero", "is 0, 1, 2 or 3");
  run->problem.options.overlap = setting.overlap;
  check_batch(line, run->dp * run->profile.micro_batches.front());
  run->problem.options.global_batch = line.count("global_batch");
  check_chunks(line, *run,
               run->problem.options.global_batch / (run->dp * run->profile.micro_batches.front()));
  run->network = network::make_network(run->problem.cluster);
  return run;
}

/// Seconds of an iteration.
double measured(const Line& line, const Run& run, const model::Graph& graph) {
  const auto seconds = line.amount("iteration_s", kMostSeconds);
  const auto tokens = line.amount("tokens_per_s", kMostTokens);
  if (seconds.has_value() == tokens.has_value()) {
    line.fail("iteration_s", "a run has either this or tokens_per_s");
  }
  if (seconds) return *seconds;
  if (!graph.tokens_per_sample) line.fail("tokens_per_s", "the model has no tokens");
  return static_cast<double>(run.problem.options.global_batch) * *graph.tokens_per_sample / *tokens;
}

Sample run_sample(const Line& line, const Setting& setting, Models& models) {
  const std::shared_ptr<const Run> run = run_of(line, setting, models);
  const model::Graph graph = line.located(
      [&] { return cost::build_graph(*run->model, run->problem.cluster.device, run->profile); });
  check_parts(line, *run, graph);
  const model::Plan plan =
      line.located([&] { return run->evaluate(cost::model_of(setting.cluster.device)); });
  if (!(plan.iteration_time_s > 0)) {
    throw InvalidInput(fmt::format("{}: {}", line.where(), plan.reason));
  }
  Sample sample;
  sample.where = line.where();
  sample.label = name_of(*run->model) + degrees_text(line);
  sample.group = group_of(line);
  sample.measured_s = measured(line, *run, graph);
  sample.seconds = [run](const model::DeviceModel& parameters) {
    return run->evaluate(parameters).iteration_time_s;
  };
  return sample;
}

/// One direction of a layer.
Sample layer_sample(const Line& line, const Setting& setting,
                    const std::shared_ptr<const model::Model>& model,
                    const cost::ProfileOptions& profile, bool forward, double seconds) {
  const std::string id = line.text("layer");
  const auto index = line.located([&] {
    const model::Graph graph = cost::build_graph(*model, setting.cluster.device, profile);
    std::vector<std::string> ids;
    for (const model::Layer& layer : graph.layers) ids.push_back(layer.id);
    const auto found = std::find(ids.begin(), ids.end(), id);
    if (found == ids.end()) {
      throw InvalidInput(
          fmt::format("layer: the model has no {}{}", util::quoted(id), util::hint(id, ids)));
    }
    return static_cast<std::size_t>(found - ids.begin());
  });
  Sample sample;
  sample.where = line.where();
  sample.label = fmt::format("{} {} {}{}", name_of(*model), id, forward ? "forward" : "backward",
                             degrees_text(line));
  sample.group = group_of(line);
  sample.measured_s = seconds;
  sample.seconds = [=, device = setting.cluster.device](const model::DeviceModel& parameters) {
    const model::Graph graph = cost::build_graph(*model, with(device, parameters), profile);
    const model::LayerCost& cost = *graph.layers[index].costs.front();
    return forward ? cost.forward_s : cost.backward_s;
  };
  return sample;
}

void add_layer_samples(const Line& line, const Setting& setting, Models& models,
                       std::vector<Sample>& samples) {
  const std::shared_ptr<const model::Model> model = models.of(line);
  cost::ProfileOptions profile = profile_of(line, *model);
  profile.granularity =
      cost::parse_granularity(line.word("granularity", cost::granularity_names()));
  const auto forward = line.amount("forward_s", kMostSeconds);
  const auto backward = line.amount("backward_s", kMostSeconds);
  if (!forward && !backward) line.fail("forward_s", "a layer has this or backward_s, or both");
  for (const auto& [seconds, is_forward] : {std::pair(forward, true), std::pair(backward, false)}) {
    if (seconds) {
      samples.push_back(layer_sample(line, setting, model, profile, is_forward, *seconds));
    }
  }
}

}  // namespace

std::vector<Sample> read_runs(std::string_view text, const std::string& file,
                              const Setting& setting) {
  const util::Csv csv = util::parse_csv(text, file);
  check_columns(csv, file, kOfRuns, {"model", "global_batch"});
  Models models(setting);
  std::vector<Sample> samples;
  for (const util::Csv::Row& row : csv.rows) {
    const Line line(csv, row, file);
    check_device(line, setting.cluster.device);
    samples.push_back(run_sample(line, setting, models));
  }
  return samples;
}

std::vector<Sample> read_layers(std::string_view text, const std::string& file,
                                const Setting& setting) {
  const util::Csv csv = util::parse_csv(text, file);
  check_columns(csv, file, kOfLayers, {"model", "layer"});
  Models models(setting);
  std::vector<Sample> samples;
  for (const util::Csv::Row& row : csv.rows) {
    const Line line(csv, row, file);
    check_device(line, setting.cluster.device);
    add_layer_samples(line, setting, models, samples);
  }
  return samples;
}

}  // namespace nestplan::calibrate
