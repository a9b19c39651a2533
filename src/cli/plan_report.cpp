#include "cli/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/overlap.hpp"
#include "cli/plan_placement.hpp"
#include "cli/plan_remarks.hpp"
#include "cli/plan_target.hpp"
#include "cli/text.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr std::size_t kWidth = 120;
constexpr std::size_t kLabelWidth = 12;
constexpr std::size_t kBarWidth = 40;

std::string labelled(std::string_view label, const std::string& text) {
  const std::size_t used = display_width(label);
  const std::string blanks(kLabelWidth > used ? kLabelWidth - used : 1, ' ');
  return std::string(label) + blanks + text + '\n';
}

using util::idx;

/// A degree of all stages: "8", or "1–8" where they differ.
template <typename Degree>
std::string degree(const model::Plan& plan, const model::Graph& graph, Degree degree_of) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;
  for (const model::StagePlan& stage : plan.stages) {
    const std::int64_t value = std::invoke(degree_of, graph.strategies[idx(stage.strategy)]);
    least = std::min(least, value);
    most = std::max(most, value);
  }
  return least == most ? fmt::format("{}", most) : fmt::format("{}–{}", least, most);
}

/// "pp 4 · tp 8 · micro-batch 1", and what else is not 1. EP is that of frameworks where the graph
/// knows the experts.
std::string degrees(const model::Plan& plan, const model::Graph& graph) {
  const model::PlanStrategy& s = plan.strategy;
  std::string text = fmt::format("pp {} · tp {}", s.pp, degree(plan, graph, &model::Strategy::tp));
  const auto add = [&](const char* name, const std::string& value) {
    if (value != "1") text += fmt::format(" · {} {}", name, value);
  };
  add("cp", degree(plan, graph, &model::Strategy::cp));
  if (graph.dimensions.experts > 0) {
    add("ep", degree(plan, graph,
                     [](const model::Strategy& each) { return each.ep * each.tp / each.etp; }));
    add("etp", degree(plan, graph, &model::Strategy::etp));
  } else {
    add("ep", degree(plan, graph, &model::Strategy::ep));
  }
  if (s.vpp > 1) text += fmt::format(" · vpp {}", s.vpp);
  return text + fmt::format(" · micro-batch {}", s.micro_batch);
}

/// How many devices of each type there are, in the order of the types.
std::vector<std::int64_t> devices_by_type(const model::Cluster& cluster) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(cluster.type_count()), 0);
  for (const std::uint8_t type : cluster.types_of_devices()) ++counts[type];
  if (cluster.type_count() == 1) counts.front() = cluster.devices();
  return counts;
}

class Report {
 public:
  Report(const model::Plan& plan, const Setup& setup, const ReportDetail& detail)
      : plan_(plan),
        graph_(setup.problem.graph),
        cluster_(setup.problem.cluster),
        options_(setup.problem.options),
        precision_(setup.precision),
        setup_(setup),
        target_(target_of(plan, setup)),
        notes_(plan_notes(plan, setup)),
        detail_(detail) {}

  std::string text() const {
    std::string out = header();
    if (plan_.status == model::Status::kInfeasible) {
      out += labelled_paragraph("infeasible", plan_.reason);
    }
    if (!plan_.stages.empty()) {
      out += strategy() + target() + iteration() + throughput() + memory() + devices() + remarks() +
             '\n' + stages() + placement_text(notes_.placement, *setup_.network);
      if (detail_.breakdown) out += '\n' + breakdown();
    }
    if (!detail_.search) return out;
    if (!plan_.stages.empty()) out += '\n';
    return out + search();
  }

 private:
  /// A name of any length, fit for the heading.
  static std::string shown(const std::string& name) { return shortened(printable(name), 40); }

  std::string header() const {
    std::string batch = counted(options_.global_batch, "sequence");
    if (graph_.tokens_per_sample) {
      const double tokens = *graph_.tokens_per_sample;
      batch += fmt::format(" × {} tokens = {} tokens", util::rate_text(tokens),
                           util::rate_text(tokens * static_cast<double>(options_.global_batch)));
    }
    return labelled("model", fmt::format("{} ({})", shown(graph_.name),
                                         counted(std::ssize(graph_.layers), "layer"))) +
           labelled("cluster", fmt::format("{} ({})", shown(cluster_.name), devices_of(cluster_))) +
           labelled("batch", batch);
  }

  /// "1,024 × h100", "24 of 1,024 × h100" of which not all are to be used, or "24 × h100, 31 ×
  /// a100".
  static std::string devices_of(const model::Cluster& cluster) {
    const std::vector<std::int64_t> counts = devices_by_type(cluster);
    std::string text;
    for (int type = 0; type < cluster.type_count(); ++type) {
      const std::int64_t count = counts[static_cast<std::size_t>(type)];
      const bool some = cluster.type_count() == 1 && count < cluster.places();
      text += fmt::format("{}{}{} × {}", type == 0 ? "" : ", ", util::format_count(count),
                          some ? " of " + util::format_count(cluster.places()) : "",
                          shown(cluster.type(type).name));
    }
    return text;
  }

  /// A degree of all stages: "8", or "1–8" where they differ.
  std::string degree(std::int64_t model::Strategy::*field) const {
    return cli::degree(plan_, graph_, field);
  }

  const model::Strategy& strategy_of(const model::StagePlan& stage) const {
    return graph_.strategies[idx(stage.strategy)];
  }

  std::string strategy() const {
    const model::PlanStrategy& s = plan_.strategy;
    return labelled("strategy", fmt::format("dp {} = {} inner × {} outer · {} · {} · {}", s.dp,
                                            s.dp_inner, s.dp_outer, degrees(plan_, graph_),
                                            counted(s.microbatches, "micro-batch"),
                                            model::to_string(s.schedule)));
  }

  /// The framework, and with a breakdown what has to be set there.
  std::string target() const {
    if (!target_) return "";
    std::string out = labelled("target", fmt::format("{} ({})", target_->name, target_->version));
    if (!detail_.breakdown || target_->settings.empty()) return out;
    Table table({{"setting"}, {"value"}, {"because"}});
    for (const auto& [key, value, why] : target_->settings) table.add({key, value, why});
    return out + table.text(2, kWidth);
  }

  std::string iteration() const {
    if (plan_.iteration_time_s <= 0) return "";
    std::string out = labelled(
        "iteration", fmt::format("{}{} (objective {})", precise_seconds(plan_.iteration_time_s),
                                 bound(), model::to_string(plan_.objective)));
    const model::TimeSplit& split = plan_.split;
    std::vector<std::pair<const char*, double>> parts{
        {"compute", split.compute_s},
        {"recompute", split.recompute_s},
        {collectives_name(), split.collective_s},
        {"pipeline transfers", split.pipeline_s},
        {"data parallel", split.data_parallel_s},
    };
    if (split.update_s > 0) parts.emplace_back("optimizer step", split.update_s);
    parts.emplace_back("pipeline bubble", split.bubble_s);
    for (const auto& [name, seconds] : parts) {
      out += item(name, util::format_seconds(seconds), seconds / plan_.iteration_time_s);
    }
    if (const model::Overlap& overlap = plan_.strategy.overlap; !overlap.none()) {
      out +=
          labelled("overlap", fmt::format("shares beside computation: {}", overlap_text(overlap)));
    }
    if (const double ties = tie_s(); ties > 0) {
      out += labelled("ties", fmt::format("gradients of shared parameters take {} an iteration",
                                          util::format_seconds(ties)));
    }
    return out;
  }

  /// A line of what something consists of, with a bar for its share.
  static std::string item(std::string_view name, const std::string& amount, double share) {
    std::string bar;
    const auto blocks = std::lround(share * static_cast<double>(kBarWidth));
    for (long i = 0; i < blocks; ++i) bar += "█";
    const std::string line =
        fmt::format("  {:<25}{:>10}  {:>7}  {}", name, amount, percent(share), bar);
    return labelled("", line.substr(0, line.find_last_not_of(' ') + 1));
  }

  double tie_s() const {
    double sum = 0;
    for (const model::StagePlan& stage : plan_.stages) sum += stage.time.tie_s;
    return sum;
  }

  /// What the plan may use of a device.
  double memory_limit() const { return plan_.stages[fullest_stage()].memory.limit_bytes; }

  /// The stage that is nearest to its limit, or farthest beyond it.
  std::size_t fullest_stage() const {
    const auto left = [](const model::StagePlan& stage) {
      return stage.memory.limit_bytes - stage.memory.total_bytes;
    };
    const auto fullest =
        std::min_element(plan_.stages.begin(), plan_.stages.end(),
                         [&](const auto& a, const auto& b) { return left(a) < left(b); });
    return static_cast<std::size_t>(fullest - plan_.stages.begin());
  }

  /// The fullest stage, item by item.
  std::string memory() const {
    const std::size_t fullest = fullest_stage();
    const model::StageMemory& m = plan_.stages[fullest].memory;
    if (m.total_bytes <= 0) return "";  // the plan is too broken to have any
    const double limit = memory_limit();
    std::string out = labelled_paragraph(
        "memory", fmt::format("{} GiB on stage {}, of {} GiB that a plan may use ({})",
                              gibibytes(m.total_bytes), fullest + 1, gibibytes(limit),
                              limit_text(m.margin_bytes)));
    const std::pair<const char*, double> parts[] = {
        {"weights", m.weight_bytes},
        {"gradients", m.gradient_bytes},
        {"optimizer", m.optimizer_bytes},
        {"gathered weights", m.gathered_bytes},
        {"activations in flight", m.in_flight_bytes},
        {"one layer at work", m.working_bytes},
        {"context", m.context_bytes},
        {"communicators", m.communicator_bytes},
        {"left of the limit", std::max(limit - m.total_bytes, 0.0)},
    };
    for (const auto& [name, bytes] : parts) {
      out += item(name, gibibytes_or_zero(bytes) + " GiB", bytes / std::max(limit, m.total_bytes));
    }
    return out;
  }

  std::string limit_text(double margin) const {
    const model::Device& device = cluster_.device;
    return fmt::format("{} GiB less {} GiB reserved and a margin of {} GiB, {}",
                       gibibytes(device.memory_bytes), gibibytes_or_zero(device.reserved_bytes),
                       gibibytes_or_zero(margin), percent(options_.reserve.margin));
  }

  const char* collectives_name() const {
    const bool context = degree(&model::Strategy::cp) != "1";
    const bool expert = degree(&model::Strategy::ep) != "1";
    if (context && expert) return "tensor, context, expert";
    return context  ? "tensor, context parallel"
           : expert ? "tensor, expert parallel"
                    : "tensor parallel";
  }

  std::string bound() const {
    if (!detail_.search || plan_.status == model::Status::kInfeasible) return "";
    if (plan_.status == model::Status::kOptimal)
      return ", optimal: nothing is faster in this model";
    return fmt::format(", stopped early: no plan is faster than {} (gap {})",
                       precise_seconds(plan_.lower_bound_s), percent(plan_.gap));
  }

  std::string throughput() const {
    if (plan_.iteration_time_s <= 0) return "";
    const double samples = static_cast<double>(options_.global_batch) / plan_.iteration_time_s;
    const auto devices = static_cast<double>(model::devices_used(plan_));
    std::string text = fmt::format("{} samples/s", util::rate_text(samples));
    if (graph_.tokens_per_sample) {
      const double tokens = samples * *graph_.tokens_per_sample;
      text += fmt::format(" · {} tokens/s · {} tokens/s per device", util::rate_text(tokens),
                          util::rate_text(tokens / devices));
    }
    if (graph_.model_flops_per_sample) {
      const double flops = samples * *graph_.model_flops_per_sample / devices;
      text += fmt::format(" · {:.1f} model TFLOP/s per device", flops / 1e12);
      if (const double peak = peak_flops(cluster_, precision_); peak > 0) {
        return labelled("throughput", text) +
               labelled("", fmt::format("MFU {} of the {} peak, {}", percent(flops / peak),
                                        precision_, util::format_si(peak, "FLOP/s")));
      }
    }
    return labelled("throughput", text);
  }

  std::string devices() const {
    if (plan_.iteration_time_s <= 0) return "";  // the stages have no places of their own
    const std::int64_t all = cluster_.devices();
    const std::int64_t pods = plan_.strategy.dp_outer;
    const std::int64_t pod_size = all / pods;
    std::vector<Range> used;
    for (std::int64_t pod = 0; pod < pods; ++pod) {
      for (const model::StagePlan& stage : plan_.stages) {
        const std::int64_t begin = pod * pod_size + stage.position;
        used.push_back({begin, begin + stage.devices});
      }
    }
    const std::int64_t busy = model::devices_used(plan_);
    const std::string idle = busy >= all
                                 ? "none idle"
                                 : fmt::format("{} idle: {}", util::format_count(all - busy),
                                               ranges_text(complement(used, all)));
    return labelled("devices", fmt::format("{} of {} used, {}", util::format_count(busy),
                                           util::format_count(all), idle));
  }

  /// What loading takes, and whatever else has to be known.
  std::string remarks() const {
    std::string out;
    if (notes_.restart && detail_.breakdown) {
      out += labelled_paragraph(
          "restart",
          fmt::format(
              "loading optimizer state takes {} of host memory per node ({} ranks) if every "
              "rank reads that of its whole stage, {} if shards are read",
              util::format_bytes(notes_.restart->whole_bytes_per_node),
              notes_.restart->ranks_per_node,
              util::format_bytes(notes_.restart->shard_bytes_per_node)));
    }
    for (const std::string& remark : notes_.remarks) out += labelled_paragraph("note", remark);
    return out;
  }

  std::vector<std::string> layer_names(std::size_t first, std::size_t last) const {
    std::vector<std::string> names;
    for (std::size_t s = first; s <= last; ++s) {
      for (const int layer : plan_.stages[s].layers) names.push_back(graph_.layers[idx(layer)].id);
    }
    return names;
  }

  /// Equal but for where they lie, what they hold and how many micro-batches are in flight.
  bool alike(const model::StagePlan& a, const model::StagePlan& b) const {
    return a.strategy == b.strategy && a.devices == b.devices && a.recompute == b.recompute &&
           a.zero == b.zero && a.shard == b.shard && a.memory.limit_bytes == b.memory.limit_bytes &&
           a.layers.size() == b.layers.size() &&
           util::format_seconds(a.time.total_s) == util::format_seconds(b.time.total_s);
  }

  std::string stages() const {
    const std::int64_t pods = plan_.strategy.dp_outer;
    std::string out = fmt::format("stages of pod 0 ({} of {})\n", counted(pods, "pod"),
                                  counted(cluster_.devices() / pods, "device"));
    Table table({{"stage", Table::Align::kRight},
                 {"layers"},
                 {"strategy"},
                 {"devices"},
                 {"recompute"},
                 {"ZeRO", Table::Align::kRight},
                 {"per micro-batch", Table::Align::kRight},
                 {"memory", Table::Align::kRight},
                 {"", Table::Align::kRight}});
    for (std::size_t first = 0; first < plan_.stages.size();) {
      std::size_t last = first;
      while (detail_.fold_stages && last + 1 < plan_.stages.size() &&
             alike(plan_.stages[first], plan_.stages[last + 1])) {
        ++last;
      }
      table.add(stage_row(first, last));
      first = last + 1;
    }
    return out + table.text(1, kWidth);
  }

  std::vector<std::string> stage_row(std::size_t first, std::size_t last) const {
    const model::StagePlan& stage = plan_.stages[first];
    const std::string number =
        range_text({static_cast<std::int64_t>(first) + 1, static_cast<std::int64_t>(last) + 2});
    std::string layers = names_text(layer_names(first, last));
    if (last > first) layers += fmt::format(" ({} each)", stage.layers.size());
    double least = stage.memory.total_bytes;
    double most = least;
    for (std::size_t s = first; s <= last; ++s) {
      least = std::min(least, plan_.stages[s].memory.total_bytes);
      most = std::max(most, plan_.stages[s].memory.total_bytes);
    }
    const double limit = stage.memory.limit_bytes;
    const std::string used = gibibytes(least) == gibibytes(most)
                                 ? gibibytes(most)
                                 : fmt::format("{}–{}", gibibytes(least), gibibytes(most));
    return {number,
            layers,
            printable(strategy_of(stage).id),
            devices_text(stage.position, plan_.stages[last]),
            model::to_string(stage.recompute),
            zero_text(stage),
            util::format_seconds(stage.time.total_s),
            fmt::format("{} / {} GiB", used, gibibytes(limit)),
            fmt::format("{:.0f} %", 100 * most / limit)};
  }

  static std::string zero_text(const model::StagePlan& stage) {
    const bool hybrid = stage.zero > 0 && stage.shard == model::ShardSpan::kPod;
    return fmt::format("{}{}", stage.zero, hybrid ? " pod" : "");
  }

  static std::string devices_text(std::int64_t begin, const model::StagePlan& last) {
    if (last.devices == 0) return fmt::format("from {}", begin);  // an illegal plan
    return range_text({begin, last.position + last.devices});
  }

  std::string breakdown() const {
    Table table({{"stage", Table::Align::kRight},
                 {"forward", Table::Align::kRight},
                 {"backward", Table::Align::kRight},
                 {"recompute", Table::Align::kRight},
                 {"collectives", Table::Align::kRight},
                 {"receive", Table::Align::kRight},
                 {"grad receive", Table::Align::kRight},
                 {"ZeRO", Table::Align::kRight},
                 {"sync", Table::Align::kRight},
                 {"update", Table::Align::kRight},
                 {"ties", Table::Align::kRight}});
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const model::StageTime& time = plan_.stages[s].time;
      table.add({fmt::format("{}", s + 1), util::format_seconds(time.forward_s),
                 util::format_seconds(time.backward_s), util::format_seconds(time.recompute_s),
                 util::format_seconds(time.collective_s), util::format_seconds(time.receive_s),
                 util::format_seconds(time.gradient_receive_s), util::format_seconds(time.zero_s),
                 util::format_seconds(time.sync_s), util::format_seconds(time.update_s),
                 util::format_seconds(time.tie_s)});
    }
    return "time per micro-batch (collectives: what forward, backward and recompute spend in them; "
           "sync, ties: once;\nupdate: the optimizer's step, in sync)\n" +
           table.text(0, kWidth) + '\n' + memory_breakdown();
  }

  std::string memory_breakdown() const {
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"stage", kRight},
                 {"weights", kRight},
                 {"gradients", kRight},
                 {"optimizer", kRight},
                 {"gathered", kRight},
                 {"in flight", kRight},
                 {"at work", kRight},
                 {"context", kRight},
                 {"comm.", kRight},
                 {"total", kRight},
                 {"tables", kRight}});
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const model::StageMemory& m = plan_.stages[s].memory;
      table.add({fmt::format("{}", s + 1), gibibytes_or_zero(m.weight_bytes),
                 gibibytes_or_zero(m.gradient_bytes), gibibytes_or_zero(m.optimizer_bytes),
                 gibibytes_or_zero(m.gathered_bytes), gibibytes_or_zero(m.in_flight_bytes),
                 gibibytes_or_zero(m.working_bytes), gibibytes_or_zero(m.context_bytes),
                 gibibytes_or_zero(m.communicator_bytes), gibibytes(m.total_bytes),
                 gibibytes_or_zero(m.table_bytes)});
    }
    return fmt::format(
               "memory per device in GiB, of {} (tables: of the weights, those over the "
               "vocabulary)\n",
               limits()) +
           table.text(0, kWidth);
  }

  /// What stages may use of their devices: "74.4", or "37.3–74.4" where they differ.
  std::string limits() const {
    double least = memory_limit();
    double most = least;
    for (const model::StagePlan& stage : plan_.stages) {
      least = std::min(least, stage.memory.limit_bytes);
      most = std::max(most, stage.memory.limit_bytes);
    }
    return least == most ? gibibytes(most)
                         : fmt::format("{}–{}", gibibytes(least), gibibytes(most));
  }

  std::string search() const {
    const model::SearchStats& s = plan_.search;
    std::string text = fmt::format("{} in {}", counted(s.configurations, "configuration"),
                                   util::format_seconds(s.seconds));
    std::vector<std::string> rejected;
    for (const auto& [reason, count] : s.rejected) {
      if (count > 0) rejected.push_back(fmt::format("{} ({})", util::format_count(count), reason));
    }
    if (!rejected.empty() && !detail_.breakdown)
      text += fmt::format(", left out: {}", fmt::join(rejected, ", "));
    text +=
        fmt::format("; {} with {} filled", counted(s.tables, "table"), counted(s.cells, "cell"));
    text = labelled_paragraph("search", text);
    if (detail_.breakdown && !rejected.empty()) text += left_out();
    if (detail_.breakdown && !s.per_rank.empty()) text += per_rank();
    return text;
  }

  std::string left_out() const {
    Table table({{"left out", Table::Align::kRight}, {"because"}});
    for (const auto& [reason, count] : plan_.search.rejected) {
      if (count > 0) table.add({util::format_count(count), reason});
    }
    return table.text(1, kWidth);
  }

  std::string per_rank() const {
    Table table({{counted(plan_.search.ranks, "rank"), Table::Align::kLeft},
                 {"min", Table::Align::kRight},
                 {"mean", Table::Align::kRight},
                 {"max", Table::Align::kRight},
                 {"imbalance", Table::Align::kRight}});
    for (const model::RankFigure& figure : plan_.search.per_rank) {
      table.add({figure.name, fmt::format("{:.3f}", figure.least),
                 fmt::format("{:.3f}", figure.mean), fmt::format("{:.3f}", figure.most),
                 figure.mean > 0 ? fmt::format("{:.2f}", figure.most / figure.mean) : "-"});
    }
    return table.text(2, kWidth);
  }

  const model::Plan& plan_;
  const model::Graph& graph_;
  const model::Cluster& cluster_;
  const model::PlanOptions& options_;
  const std::string& precision_;
  const Setup& setup_;
  const std::optional<io::PlanTarget> target_;
  const io::PlanNotes notes_;
  const ReportDetail& detail_;
};

}  // namespace

std::string labelled_paragraph(std::string_view label, const std::string& text) {
  std::string out;
  for (const std::string& line : wrapped(text, kWidth - kLabelWidth)) {
    out += labelled(out.empty() ? label : "", line);
  }
  return out;
}

std::string strategy_text(const model::Plan& plan, const model::Graph& graph) {
  return fmt::format("dp {} · {}", plan.strategy.dp, degrees(plan, graph));
}

double peak_bytes(const model::Plan& plan) {
  double peak = 0;
  for (const model::StagePlan& stage : plan.stages) {
    peak = std::max(peak, stage.memory.total_bytes);
  }
  return peak;
}

double peak_flops(const model::Cluster& cluster, const std::string& precision) {
  const std::vector<std::int64_t> counts = devices_by_type(cluster);
  double sum = 0;
  for (int type = 0; type < cluster.type_count(); ++type) {
    const auto& peaks = cluster.type(type).peak_flops;
    const auto peak = peaks.find(precision);
    if (peak == peaks.end()) return 0;
    sum += static_cast<double>(counts[static_cast<std::size_t>(type)]) * peak->second;
  }
  return sum / static_cast<double>(cluster.devices());
}

std::string plan_report(const model::Plan& plan, const Setup& setup, const ReportDetail& detail) {
  return Report(plan, setup, detail).text();
}

}  // namespace nestplan::cli
