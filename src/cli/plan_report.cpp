#include "cli/plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/text.hpp"
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

/// Text broken at blanks into lines of at most `kWidth`, continued behind the label.
std::string labelled_paragraph(std::string_view label, const std::string& text) {
  std::string out;
  std::string line;
  const auto flush = [&] {
    out += labelled(out.empty() ? label : "", line);
    line.clear();
  };
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && kLabelWidth + display_width(line) + 1 + display_width(word) > kWidth)
      flush();
    if (!line.empty()) line += ' ';
    line += word;
    begin = end + 1;
  }
  flush();
  return out;
}

std::size_t idx(std::int64_t i) { return static_cast<std::size_t>(i); }

class Report {
 public:
  Report(const model::Plan& plan, const Setup& setup, const ReportDetail& detail)
      : plan_(plan),
        graph_(setup.problem.graph),
        cluster_(setup.problem.cluster),
        options_(setup.problem.options),
        precision_(setup.precision),
        detail_(detail) {}

  std::string text() const {
    std::string out = header();
    if (plan_.status == model::Status::kInfeasible) {
      out += labelled_paragraph("infeasible", plan_.reason);
    }
    if (!plan_.stages.empty()) {
      out += strategy() + iteration() + throughput() + devices() + '\n' + stages();
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
      batch += fmt::format(" × {} tokens = {} tokens", rate(tokens),
                           rate(tokens * static_cast<double>(options_.global_batch)));
    }
    return labelled("model", fmt::format("{} ({})", shown(graph_.name),
                                         counted(std::ssize(graph_.layers), "layer"))) +
           labelled("cluster", fmt::format("{} ({} × {})", shown(cluster_.name),
                                           util::format_count(cluster_.devices()),
                                           shown(cluster_.device.name))) +
           labelled("batch", batch);
  }

  /// A degree of all stages: "8", or "1–8" where they differ.
  std::string degree(std::int64_t model::Strategy::*field) const {
    std::int64_t least = strategy_of(plan_.stages.front()).*field;
    std::int64_t most = least;
    for (const model::StagePlan& stage : plan_.stages) {
      least = std::min(least, strategy_of(stage).*field);
      most = std::max(most, strategy_of(stage).*field);
    }
    return least == most ? fmt::format("{}", most) : fmt::format("{}–{}", least, most);
  }

  const model::Strategy& strategy_of(const model::StagePlan& stage) const {
    return graph_.strategies[idx(stage.strategy)];
  }

  std::string strategy() const {
    const model::PlanStrategy& s = plan_.strategy;
    std::string text = fmt::format("dp {} = {} inner × {} outer · pp {} · tp {}", s.dp, s.dp_inner,
                                   s.dp_outer, s.pp, degree(&model::Strategy::tp));
    for (const auto& [name, field] :
         {std::pair{"cp", &model::Strategy::cp}, std::pair{"ep", &model::Strategy::ep}}) {
      const std::string value = degree(field);
      if (value != "1") text += fmt::format(" · {} {}", name, value);
    }
    text += fmt::format(" · micro-batch {} · {} · {}", s.micro_batch,
                        counted(s.microbatches, "micro-batch"), model::to_string(s.schedule));
    return labelled("strategy", text);
  }

  std::string iteration() const {
    if (plan_.iteration_time_s <= 0) return "";
    std::string out = labelled(
        "iteration", fmt::format("{}{} (objective {})", precise_seconds(plan_.iteration_time_s),
                                 bound(), model::to_string(plan_.objective)));
    const model::TimeSplit& split = plan_.split;
    const std::pair<const char*, double> parts[] = {
        {"compute", split.compute_s},
        {"recompute", split.recompute_s},
        {collectives_name(), split.collective_s},
        {"pipeline transfers", split.pipeline_s},
        {"data parallel", split.data_parallel_s},
        {"pipeline bubble", split.bubble_s},
    };
    for (const auto& [name, seconds] : parts) {
      const double share = seconds / plan_.iteration_time_s;
      std::string bar;
      const auto blocks = std::lround(share * static_cast<double>(kBarWidth));
      for (long i = 0; i < blocks; ++i) bar += "█";
      const std::string line = fmt::format("  {:<25}{:>10}  {:>7}  {}", name,
                                           util::format_seconds(seconds), percent(share), bar);
      out += labelled("", line.substr(0, line.find_last_not_of(' ') + 1));
    }
    return out;
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
    const auto devices = static_cast<double>(devices_used());
    std::string text = fmt::format("{} samples/s", rate(samples));
    if (graph_.tokens_per_sample) {
      const double tokens = samples * *graph_.tokens_per_sample;
      text += fmt::format(" · {} tokens/s · {} tokens/s per device", rate(tokens),
                          rate(tokens / devices));
    }
    if (graph_.model_flops_per_sample) {
      const double flops = samples * *graph_.model_flops_per_sample / devices;
      text += fmt::format(" · {:.1f} model TFLOP/s per device", flops / 1e12);
      const auto peak = cluster_.device.peak_flops.find(precision_);
      if (peak != cluster_.device.peak_flops.end()) {
        return labelled("throughput", text) +
               labelled("", fmt::format("MFU {} of the {} peak, {}", percent(flops / peak->second),
                                        precision_, util::format_si(peak->second, "FLOP/s")));
      }
    }
    return labelled("throughput", text);
  }

  std::int64_t devices_used() const {
    std::int64_t pod = 0;
    for (const model::StagePlan& stage : plan_.stages) pod += stage.devices;
    return pod * plan_.strategy.dp_outer;
  }

  /// An amount, or one per second: whole from a thousand on, four digits below and beyond counting.
  static std::string rate(double amount) {
    return amount < 1e3 || amount >= 1e15 ? fmt::format("{:.4g}", amount)
                                          : util::format_count(std::llround(amount));
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
    const std::int64_t busy = devices_used();
    const std::string idle = busy >= all
                                 ? "none idle"
                                 : fmt::format("{} idle: {}", util::format_count(all - busy),
                                               ranges_text(complement(used, all)));
    return labelled("devices", fmt::format("{} of {} used, {}", util::format_count(busy),
                                           util::format_count(all), idle));
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
           a.zero == b.zero && a.layers.size() == b.layers.size() &&
           util::format_seconds(a.time.total_s) == util::format_seconds(b.time.total_s);
  }

  std::string stages() const {
    const std::int64_t pods = plan_.strategy.dp_outer;
    std::string out =
        fmt::format("stages of pod 0 ({} of {} devices)\n",
                    pods == 1 ? "1 pod" : fmt::format("{} pods", util::format_count(pods)),
                    util::format_count(cluster_.devices() / pods));
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
    const double limit = cluster_.device.usable_bytes();
    const std::string used = gibibytes(least) == gibibytes(most)
                                 ? gibibytes(most)
                                 : fmt::format("{}–{}", gibibytes(least), gibibytes(most));
    return {number,
            layers,
            printable(strategy_of(stage).id),
            devices_text(stage.position, plan_.stages[last]),
            model::to_string(stage.recompute),
            fmt::format("{}", stage.zero),
            util::format_seconds(stage.time.total_s),
            fmt::format("{} / {} GiB", used, gibibytes(limit)),
            fmt::format("{:.0f} %", 100 * most / limit)};
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
                 {"state", Table::Align::kRight},
                 {"activations", Table::Align::kRight}});
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const model::StageTime& time = plan_.stages[s].time;
      const model::StageMemory& memory = plan_.stages[s].memory;
      table.add({fmt::format("{}", s + 1), util::format_seconds(time.forward_s),
                 util::format_seconds(time.backward_s), util::format_seconds(time.recompute_s),
                 util::format_seconds(time.collective_s), util::format_seconds(time.receive_s),
                 util::format_seconds(time.gradient_receive_s), util::format_seconds(time.zero_s),
                 util::format_seconds(time.sync_s), util::format_bytes_binary(memory.state_bytes),
                 util::format_bytes_binary(memory.activation_bytes)});
    }
    return "time per micro-batch (collectives: what forward, backward and recompute spend in them; "
           "sync: once)\n" +
           table.text(0, kWidth);
  }

  std::string search() const {
    const model::SearchStats& s = plan_.search;
    std::string text = fmt::format("{} in {}", counted(s.configurations, "configuration"),
                                   util::format_seconds(s.seconds));
    std::vector<std::string> rejected;
    for (const auto& [reason, count] : s.rejected) {
      if (count > 0) rejected.push_back(fmt::format("{} ({})", util::format_count(count), reason));
    }
    if (!rejected.empty()) text += fmt::format(", left out: {}", fmt::join(rejected, ", "));
    text +=
        fmt::format("; {} with {} filled", counted(s.tables, "table"), counted(s.cells, "cell"));
    text = labelled_paragraph("search", text);
    if (detail_.breakdown && !s.per_rank.empty()) text += per_rank();
    return text;
  }

  std::string per_rank() const {
    Table table({{fmt::format("{} ranks", plan_.search.ranks), Table::Align::kLeft},
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

  static std::string counted(std::int64_t count, const char* noun) {
    const char* const plural = std::string_view(noun).ends_with("ch") ? "es" : "s";
    return fmt::format("{} {}{}", util::format_count(count), noun, count == 1 ? "" : plural);
  }

  const model::Plan& plan_;
  const model::Graph& graph_;
  const model::Cluster& cluster_;
  const model::PlanOptions& options_;
  const std::string& precision_;
  const ReportDetail& detail_;
};

}  // namespace

std::string plan_report(const model::Plan& plan, const Setup& setup, const ReportDetail& detail) {
  return Report(plan, setup, detail).text();
}

}  // namespace nestplan::cli
