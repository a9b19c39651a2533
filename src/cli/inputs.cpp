#include "cli/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "cli/device_remarks.hpp"
#include "cli/idle_options.hpp"
#include "cli/machine.hpp"
#include "cli/overlap.hpp"
#include "cli/search_options.hpp"
#include "cli/stage_rules.hpp"
#include "distributed/archive.hpp"
#include "nestplan/cost/device_times.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr std::int64_t kDefaultSequence = 4096;
constexpr std::int64_t kLargestDefaultTp = 8;
constexpr cost::Granularity kDefaultGranularity = cost::Granularity::kLayer;

/// Left of the memory of a device for a `--model` unless the flags say otherwise: a CUDA context of
/// 1.6 GB and the communicator of all ranks; 0.7 GB for each further communicator (NVIDIA/nccl,
/// issues 964 and 986: 688 MiB of more than two A100s); 6 % that the caching allocator of PyTorch
/// holds beside what is allocated. The last was chosen among a few values by what nvidia-smi showed
/// in 67 runs (bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles-prequel.md), which the
/// three meet within 4 % in the median. The costs of a `--graph` may hold all that, so nothing is
/// added there.
constexpr model::MemoryReserve kModelReserve{2.3e9, 0.7e9, 0.06};

/// The margin where experts take all tokens that are sent to them: how many these are changes from
/// step to step, and with it what the allocator holds.
constexpr double kDroplessMargin = 0.10;

/// Powers of two up to the devices that the nearest links join, and the divisors of these.
std::vector<std::int64_t> default_tensor_degrees(const model::Cluster& cluster) {
  const std::vector<std::int64_t> hosts = cluster.host_sizes();
  // On a torus the links between hosts are those inside of them.
  const bool torus = std::holds_alternative<model::TorusSpec>(cluster.network);
  const std::int64_t node =
      torus ? cluster.places() : *std::max_element(hosts.begin(), hosts.end());
  const std::int64_t most = std::min(kLargestDefaultTp, node);
  std::vector<std::int64_t> degrees;
  for (std::int64_t tp = 1; tp <= most; ++tp) {
    const bool power = (tp & (tp - 1)) == 0;
    if (power || node % tp == 0) degrees.push_back(tp);
  }
  return degrees;
}

/// Powers of two that divide the experts of a layer, up to the devices; 1 for a model without any.
std::vector<std::int64_t> default_expert_degrees(const model::Model& model,
                                                 const model::Cluster& cluster) {
  std::vector<std::int64_t> degrees{1};
  const std::int64_t experts = cost::routed_experts(model);
  for (std::int64_t ep = 2; ep <= std::min(experts, cluster.devices()); ep *= 2) {
    if (experts % ep == 0) degrees.push_back(ep);
  }
  return degrees;
}

std::vector<model::ContextForm> context_forms(const Flags& flags) {
  std::vector<model::ContextForm> forms;
  for (const std::string& name : flags.context_form) {
    forms.push_back(model::parse_context_form(name));
  }
  return forms.empty() ? std::vector{model::ContextForm::kRing} : forms;
}

cost::ProfileOptions profile_options(const Flags& flags, const NeededDegrees& needed,
                                     const model::Model& model, const model::Cluster& cluster) {
  const auto first_of = [](auto&&... lists) {
    std::vector<std::int64_t> chosen;
    ((chosen.empty() ? void(chosen = lists) : void()), ...);
    return chosen;
  };
  cost::ProfileOptions options = shape_options(flags, model);
  options.tp = first_of(needed.tp, flags.tp, default_tensor_degrees(cluster));
  options.micro_batches =
      first_of(needed.micro_batches, flags.micro_batch, std::vector<std::int64_t>{1, 2, 4});
  options.cp = first_of(needed.cp, flags.cp, std::vector<std::int64_t>{1});
  options.ep = first_of(needed.ep, flags.ep, default_expert_degrees(model, cluster));
  options.etp = first_of(needed.etp, flags.etp);
  options.context_forms =
      needed.context_forms.empty() ? context_forms(flags) : needed.context_forms;
  options.precision = flags.precision;
  options.fused_attention = flags.attention != kUnfused;
  options.attention_kernel = cost::attention_kernel_of(flags.attention.value_or(""));
  options.sequence_parallel = !flags.no_sequence_parallel;
  options.vocabulary_multiple = flags.vocabulary_multiple.value_or(options.vocabulary_multiple);
  if (!flags.logit_bytes.empty()) options.logit_bytes = flags.logit_bytes[0];
  if (!flags.routing_imbalance.empty()) options.routing_imbalance = flags.routing_imbalance[0];
  if (!flags.capacity_factor.empty()) options.capacity_factor = flags.capacity_factor[0];
  return options;
}

/// "vision=4096,audio=1500".
std::map<std::string, std::int64_t> parse_tokens(std::string_view text) {
  constexpr std::int64_t kMostTokens = 1'000'000'000;
  std::map<std::string, std::int64_t> tokens;
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view number = entry.substr(std::min(equals + 1, entry.size()));
    std::int64_t count = 0;
    const auto [stop, error] = std::from_chars(number.begin(), number.end(), count);
    if (error != std::errc{} || stop != number.end() || count < 1 || count > kMostTokens) {
      throw InvalidConfig(fmt::format("--tokens: {} is not PART=N with a positive whole number",
                                      util::quoted(entry)));
    }
    if (!tokens.emplace(entry.substr(0, equals), count).second) {
      throw InvalidConfig(
          fmt::format("--tokens: {} is given twice", util::quoted(entry.substr(0, equals))));
    }
  }
  return tokens;
}

/// "block", or "block,vision=operator".
void parse_granularities(std::string_view text, cost::ProfileOptions& options) {
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const std::size_t equals = entry.find('=');
    try {
      if (equals == std::string_view::npos) {
        options.granularity = cost::parse_granularity(entry);
      } else {
        options.granularity_of[std::string(entry.substr(0, equals))] =
            cost::parse_granularity(entry.substr(equals + 1));
      }
    } catch (const InvalidConfig& error) {
      throw InvalidConfig(fmt::format("--{}", error.what()));
    }
  }
}

/// What `step` gives. The options and the device that it complains about are called by the flag or
/// the file that they came from.
template <typename Step>
auto blamed(const std::string& cluster_file, Step step) {
  try {
    return step();
  } catch (const InvalidConfig& error) {
    throw InvalidConfig(fmt::format("--{}", error.what()));
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", cluster_file, error.what()));
  }
}

model::Graph profile_model(const Flags& flags, const InputFiles& files, const NeededDegrees& needed,
                           const model::Cluster& cluster, std::vector<std::string>& remarks) {
  const model::Model model = model_of(flags, files.subject.text, files.subject.path);
  const cost::ProfileOptions options = profile_options(flags, needed, model, cluster);
  const std::int64_t longest = has_sequence(model) ? max_positions(model) : 0;
  if (longest > 0 && options.sequence > longest) {
    remarks.push_back(fmt::format("--seq {} is more than the {} positions that {} is made for",
                                  options.sequence, longest, name_of(model)));
  }
  for (std::string& remark : remarks_on_devices(cluster, files.cluster.path)) {
    remarks.push_back(std::move(remark));
  }
  std::vector<cost::DroppedDegree> dropped;
  model::Graph graph = blamed(files.cluster.path,
                              [&] { return cost::build_graph(model, cluster, options, &dropped); });
  for (const cost::DroppedDegree& degree : dropped) {
    remarks.push_back(
        fmt::format("{} {} is left out: {}", degree.kind, degree.degree, degree.reason));
  }
  return graph;
}

/// What only the profile of a model can follow.
void refuse_profile_flags(const Flags& flags) {
  const auto refuse = [](const char* flag, bool given) {
    if (!given) return;
    throw InvalidConfig(
        fmt::format("--{}: is for a --model; the costs of a --graph are given", flag));
  };
  refuse("context-form", !flags.context_form.empty());
  refuse("etp", !flags.etp.empty());
  refuse("attention", flags.attention.has_value());
  refuse("no-sequence-parallel", flags.no_sequence_parallel);
  refuse("no-mtp", flags.no_mtp);
  refuse("vocabulary-multiple", flags.vocabulary_multiple.has_value());
  refuse("logit-bytes", !flags.logit_bytes.empty());
  refuse("routing-imbalance", !flags.routing_imbalance.empty());
  refuse("capacity-factor", !flags.capacity_factor.empty());
}

/// Layers that no edge joins to the others: legal, and free to go into any stage, but more often
/// than not an edge was forgotten.
void remark_on_lonely_layers(const model::Graph& graph, const std::string& file,
                             std::vector<std::string>& remarks) {
  std::vector<bool> joined(graph.layers.size(), graph.layers.size() == 1);
  for (const model::Edge& edge : graph.edges) {
    joined[static_cast<std::size_t>(edge.from)] = joined[static_cast<std::size_t>(edge.to)] = true;
  }
  for (std::size_t i = 0; i < joined.size(); ++i) {
    if (joined[i]) continue;
    remarks.push_back(fmt::format("{}: layers[{}]: {} has no edge, so any stage may hold it", file,
                                  i, util::quoted(graph.layers[i].id)));
  }
}

model::Graph read_costs(const Flags& flags, const InputFile& file,
                        std::vector<std::string>& remarks) {
  refuse_profile_flags(flags);
  const bool divided =
      !flags.granularity.empty() && flags.granularity != to_string(kDefaultGranularity);
  if (divided || !flags.tokens.empty()) {
    throw InvalidConfig(fmt::format("--{}: is for a --model; the layers of a --graph are given",
                                    divided ? "granularity" : "tokens"));
  }
  model::Graph graph = io::parse_graph(file.text, file.path);
  remark_on_lonely_layers(graph, file.path, remarks);
  if (flags.seq) {
    const auto tokens = static_cast<double>(*flags.seq);
    if (graph.tokens_per_sample && *graph.tokens_per_sample != tokens) {
      throw InvalidConfig(fmt::format("--seq: the graph {} has costs for {} tokens per sequence",
                                      file.path, *graph.tokens_per_sample));
    }
    graph.tokens_per_sample = tokens;
  }
  return graph;
}

void check_presence(const Flags& flags) {
  if (flags.model.empty() == flags.graph.empty()) {
    throw InvalidConfig(flags.model.empty()
                            ? "--model or --graph is needed: what is to be planned"
                            : "--model and --graph exclude each other: give one of them");
  }
  if (flags.cluster.empty()) throw InvalidConfig("--cluster is needed: the machine to plan for");
  if (!flags.global_batch) {
    throw InvalidConfig("--global-batch is needed: sequences per iteration");
  }
}

/// 0 for a graph, which does not tell.
std::int64_t vocabulary_multiple(const Flags& flags) {
  if (!flags.graph.empty()) return 0;
  return flags.vocabulary_multiple.value_or(cost::ProfileOptions{}.vocabulary_multiple);
}

model::MemoryReserve memory_reserve(const Flags& flags) {
  model::MemoryReserve reserve = flags.graph.empty() ? kModelReserve : model::MemoryReserve{};
  reserve.context_bytes = flags.context_reserve.value_or(reserve.context_bytes);
  reserve.communicator_bytes = flags.communicator_buffer.value_or(reserve.communicator_bytes);
  if (flags.memory_margin) reserve.margin = *flags.memory_margin / 100;
  return reserve;
}

bool is_dropless(const Flags& flags, const model::Graph& graph) {
  const bool capped = !flags.capacity_factor.empty() && flags.capacity_factor[0] > 0;
  return flags.graph.empty() && graph.dimensions.experts > 0 && !capped;
}

model::PlanOptions plan_options(const Flags& flags) {
  model::PlanOptions options;
  options.global_batch = *flags.global_batch;
  options.micro_batches = flags.micro_batch;
  options.tp = flags.tp;
  options.cp = flags.cp;
  if (!flags.graph.empty()) options.ep = flags.ep;  // of a model, its strategies are all meant
  options.pp = flags.pp;
  options.dp = flags.dp;
  options.dp_inner = flags.dp_inner;
  options.recompute.clear();
  for (const std::string& name : flags.recompute) {
    options.recompute.push_back(model::parse_recompute(name));
  }
  std::sort(options.recompute.begin(), options.recompute.end());
  options.zero.clear();
  for (const std::int64_t stage : flags.zero) options.zero.push_back(static_cast<int>(stage));
  if (flags.objective) options.objective = model::parse_objective(*flags.objective);
  if (flags.schedule) options.schedule = model::parse_schedule(*flags.schedule);
  options.per_stage_strategies = flags.per_stage_strategies;
  options.allow_uneven_batch = flags.allow_uneven_batch;
  options.overlap_p2p = !flags.no_transfer_overlap;
  options.overlap = overlap_of(flags);
  options.vpp = flags.vpp;
  options.shard.clear();
  for (const std::string& name : flags.shard) {
    options.shard.push_back(model::parse_shard_span(name));
  }
  std::sort(options.shard.begin(), options.shard.end());
  if (flags.target) options.target = *flags.target;
  options.reserve = memory_reserve(flags);
  options.state_bytes = {flags.state_bytes[0], flags.state_bytes[1], flags.state_bytes[2]};
  return options;
}

/// Micro-batches and degrees that no strategy of a graph has are a slip of the pen.
void check_degrees(const Flags& flags, const model::Graph& graph) {
  const auto check = [&](const char* flag, const std::vector<std::int64_t>& wanted,
                         std::int64_t model::Strategy::*degree) {
    std::vector<std::int64_t> known;
    for (const model::Strategy& strategy : graph.strategies) known.push_back(strategy.*degree);
    util::sort_unique(known);
    const auto offered = [&](std::int64_t value) {
      return std::binary_search(known.begin(), known.end(), value);
    };
    if (!wanted.empty() && std::none_of(wanted.begin(), wanted.end(), offered)) {
      throw InvalidConfig(fmt::format("--{}: no strategy of {} has {}; it has {}", flag, graph.name,
                                      fmt::join(wanted, ", "), fmt::join(known, ", ")));
    }
  };
  check("micro-batch", flags.micro_batch, &model::Strategy::micro_batch);
  check("tp", flags.tp, &model::Strategy::tp);
  check("cp", flags.cp, &model::Strategy::cp);
  if (!flags.graph.empty()) check("ep", flags.ep, &model::Strategy::ep);
}

}  // namespace

InputFiles read_inputs(const Flags& flags) {
  check_presence(flags);
  const std::string subject =
      flags.graph.empty() ? io::model_file(flags.model).string() : flags.graph;
  return {{subject, io::read_text(subject)}, {flags.cluster, io::read_text(flags.cluster)}};
}

Setup load_setup(const Flags& flags, const NeededDegrees& needed) {
  return load_setup(flags, read_inputs(flags), needed);
}

Setup load_setup(const Flags& flags, const InputFiles& files, const NeededDegrees& needed) {
  const std::string& cluster = files.cluster.path;
  Setup setup;
  setup.precision = blamed(cluster, [&] { return cost::precision_of(flags.precision).name; });
  setup.problem.options = plan_options(flags);
  setup.problem.options.precision = setup.precision;
  setup.problem.cluster = io::parse_cluster(files.cluster.text, cluster);
  apply_machine_flags(flags, setup.problem.cluster, setup.remarks);
  setup.problem.graph = flags.graph.empty() ? profile_model(flags, files, needed,
                                                            setup.problem.cluster, setup.remarks)
                                            : read_costs(flags, files.subject, setup.remarks);
  if (!flags.graph.empty()) cost::scale_times(setup.problem.graph, setup.problem.cluster);
  check_degrees(flags, setup.problem.graph);
  for (std::string& remark : remarks_on_idle_options(flags, setup.problem.graph)) {
    setup.remarks.push_back(std::move(remark));
  }
  if (is_dropless(flags, setup.problem.graph) && !flags.memory_margin) {
    setup.problem.options.reserve.margin = kDroplessMargin;
  }
  setup.vocabulary_multiple = vocabulary_multiple(flags);
  setup.problem.options.stages = stage_rules(flags, setup.problem.graph);
  setup.network = blamed(cluster, [&] { return network::make_network(setup.problem.cluster); });
  add_place_rules(flags, *setup.network, setup.problem.options.stages);
  setup.search_options = search_options(flags);
  return setup;
}

void share_setup(const mpi::Comm& comm, Setup& setup) {
  distributed::broadcast(comm, setup.problem);
  if (!setup.network) setup.network = network::make_network(setup.problem.cluster);
}

model::Model model_of(const Flags& flags, std::string_view config,
                      const std::filesystem::path& file) {
  model::Model model = io::parse_model(config, file);
  if (!flags.no_mtp) return model;
  auto* const stack = std::get_if<model::Architecture>(&model);
  if (stack == nullptr || stack->mtp_layers == 0) {
    throw InvalidConfig(
        fmt::format("--no-mtp: {} has no modules of multi-token prediction", name_of(model)));
  }
  stack->mtp_layers = 0;
  return model;
}

std::int64_t sequence_of(const Flags& flags, const model::Model& model) {
  if (!has_sequence(model)) {
    if (flags.seq) {
      throw InvalidConfig(
          fmt::format("--seq: {} takes images, not sequences (--tokens text=N is "
                      "for their captions)",
                      name_of(model)));
    }
    return 0;
  }
  if (flags.seq) return *flags.seq;
  const std::int64_t longest = max_positions(model);
  return longest > 0 ? std::min(kDefaultSequence, longest) : kDefaultSequence;
}

cost::ProfileOptions shape_options(const Flags& flags, const model::Model& model) {
  cost::ProfileOptions options;
  options.sequence = sequence_of(flags, model);
  options.tokens = parse_tokens(flags.tokens);
  parse_granularities(flags.granularity, options);
  return options;
}

}  // namespace nestplan::cli
