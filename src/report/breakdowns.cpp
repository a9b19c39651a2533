#include "report/breakdowns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "nestplan/model/plan_terms.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"
#include "report/figure.hpp"
#include "report/table.hpp"

namespace nestplan::report {
namespace {

using model::kPlanTerms;
using util::idx;

/// A part of a stage's memory, as people call it.
struct MemoryPart {
  const char* name;
  double model::StageMemory::*amount;
};

/// They add up to the total.
constexpr std::array<MemoryPart, 8> kMemoryParts{
    {{"weights", &model::StageMemory::weight_bytes},
     {"gradients", &model::StageMemory::gradient_bytes},
     {"optimizer", &model::StageMemory::optimizer_bytes},
     {"activations in flight", &model::StageMemory::in_flight_bytes},
     {"one layer at work", &model::StageMemory::working_bytes},
     {"gathered weights", &model::StageMemory::gathered_bytes},
     {"reserve: context", &model::StageMemory::context_bytes},
     {"reserve: communicators", &model::StageMemory::communicator_bytes}}};

std::string seconds_cell(double seconds) {
  return seconds > 0 ? util::format_seconds(seconds) : "0";
}

std::string gibibytes_of(const model::StageMemory& memory) {
  return fmt::format("{} / {} GiB", util::gibibytes(memory.total_bytes),
                     util::gibibytes(memory.limit_bytes));
}

/// All that a bar stands for: what the device has but for what the cluster reserves.
double extent_of(const model::StageMemory& memory) {
  return std::max(memory.limit_bytes + memory.margin_bytes, memory.total_bytes);
}

std::vector<BarPart> memory_parts(const model::StageMemory& memory, double extent) {
  std::vector<BarPart> parts;
  for (std::size_t i = 0; i < kMemoryParts.size(); ++i) {
    parts.push_back({i, memory.*kMemoryParts[i].amount / extent});
  }
  return parts;
}

std::string memory_description(const model::StageMemory& memory) {
  std::vector<std::string> items;
  for (const auto& [name, amount] : kMemoryParts) {
    if (memory.*amount > 0) {
      items.push_back(fmt::format("{} {}", name, util::gibibytes(memory.*amount)));
    }
  }
  return fmt::format("GiB: {}; of a limit of {}", fmt::join(items, ", "),
                     util::gibibytes(memory.limit_bytes));
}

bool any_hidden(const std::vector<StageRecord>& stages) {
  return std::any_of(stages.begin(), stages.end(), [](const StageRecord& stage) {
    return stage.time.hidden_s > 0 || stage.time.hidden_transfer_s > 0;
  });
}

}  // namespace

std::vector<StageRecord> records_of(const model::Plan& plan, const model::Graph& graph) {
  std::vector<StageRecord> records;
  for (const model::StagePlan& stage : plan.stages) {
    std::vector<std::string> names;
    for (const int layer : stage.layers) names.push_back(graph.layers[idx(layer)].id);
    records.push_back({util::names_text(names), graph.strategies[idx(stage.strategy)].id,
                       stage.devices, model::to_string(stage.recompute), stage.zero, stage.time,
                       stage.memory});
  }
  return records;
}

std::size_t fullest_of(const std::vector<StageRecord>& stages) {
  const auto left = [](const StageRecord& stage) {
    return stage.memory.limit_bytes - stage.memory.total_bytes;
  };
  const auto fullest =
      std::min_element(stages.begin(), stages.end(),
                       [&](const auto& a, const auto& b) { return left(a) < left(b); });
  return idx(fullest - stages.begin());
}

std::size_t slowest_of(const std::vector<StageRecord>& stages) {
  const auto slowest = std::max_element(
      stages.begin(), stages.end(),
      [](const auto& a, const auto& b) { return a.time.pace_s() < b.time.pace_s(); });
  return idx(slowest - stages.begin());
}

void write_time_split(Html& html, const std::string& id, const model::TimeSplit& split) {
  double total = 0;
  for (const auto& [name, amount] : kPlanTerms) total += std::max(split.*amount, 0.0);
  if (total <= 0) return;
  std::vector<BarPart> parts;
  std::vector<LegendEntry> legend;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < kPlanTerms.size(); ++i) {
    const auto& [name, amount] = kPlanTerms[i];
    const double seconds = std::max(split.*amount, 0.0);
    if (seconds == 0) continue;
    const std::string share = util::percent(seconds / total);
    parts.push_back({i, seconds / total});
    legend.push_back({i, fmt::format("{}: {}, {}", name, seconds_cell(seconds), share)});
    texts.push_back(fmt::format("{} {}", name, share));
  }
  const auto figure = html.open("figure", {{"class", "split"}});
  write_bar(html, {id, "Where an iteration goes", fmt::format("{}", fmt::join(texts, ", "))},
            parts);
  write_legend(html, legend);
}

void write_memory_bars(Html& html, const std::string& id, const std::vector<StageRecord>& stages) {
  double extent = 0;
  for (const StageRecord& stage : stages) extent = std::max(extent, extent_of(stage.memory));
  if (extent <= 0) return;
  const auto figure = html.open("figure");
  const std::vector<std::size_t> drawn = drawn_of(stages.size());
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const std::size_t s = drawn[i];
    if (i > 0 && s > drawn[i - 1] + 1) {
      html.add("div", fmt::format("… {} more", s - drawn[i - 1] - 1));
    }
    const auto bar = html.open("div", {{"class", "bar"}});
    const model::StageMemory& memory = stages[s].memory;
    html.add("span", fmt::format("stage {}", s + 1), {{"class", "label"}});
    write_bar(html,
              {fmt::format("{}-{}", id, s + 1), fmt::format("Memory of stage {}", s + 1),
               memory_description(memory)},
              memory_parts(memory, extent), memory.limit_bytes / extent);
    html.add("span", gibibytes_of(memory), {{"class", "number"}});
  }

  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < kMemoryParts.size(); ++i) {
    const bool any = std::any_of(stages.begin(), stages.end(), [&](const StageRecord& stage) {
      return stage.memory.*kMemoryParts[i].amount > 0;
    });
    if (any) legend.push_back({i, kMemoryParts[i].name});
  }
  write_legend(html, legend);
  html.add("figcaption",
           fmt::format("Per device. The line is what a plan may use; right of it is the margin for "
                       "fragmentation. The whole width is {} GiB.",
                       util::gibibytes(extent)));
}

void write_stage_table(Html& html, const std::string& caption,
                       const std::vector<StageRecord>& stages) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageRecord& stage = stages[s];
    rows.push_back({fmt::format("{}", s + 1), stage.layers, stage.strategy,
                    util::format_count(stage.devices), stage.recompute,
                    fmt::format("{}", stage.zero), seconds_cell(stage.time.total_s),
                    util::gibibytes(stage.memory.total_bytes)});
  }
  write_table(html, caption,
              {{"stage", true},
               {"layers", false, true},
               {"strategy"},
               {"devices", true},
               {"recompute"},
               {"ZeRO", true},
               {"per micro-batch", true},
               {"GiB", true}},
              rows);
}

void write_time_table(Html& html, const std::string& caption,
                      const std::vector<StageRecord>& stages) {
  const bool hidden = any_hidden(stages);
  std::vector<Column> columns{{"stage", true},     {"forward", true}, {"backward", true},
                              {"recompute", true}, {"receive", true}, {"gradient receive", true},
                              {"ZeRO", true}};
  if (hidden) columns.push_back({"hidden", true});
  columns.insert(columns.end(), {{"total", true},
                                 {"collectives in it", true},
                                 {"sync", true},
                                 {"update in it", true},
                                 {"ties", true}});
  std::vector<std::vector<Cell>> rows;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const model::StageTime& time = stages[s].time;
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(fmt::format("{}", s + 1));
    for (const double seconds : {time.forward_s, time.backward_s, time.recompute_s, time.receive_s,
                                 time.gradient_receive_s, time.zero_s}) {
      row.emplace_back(seconds_cell(seconds));
    }
    if (hidden) {
      const double beside = time.hidden_s + time.hidden_transfer_s;
      row.emplace_back(beside > 0 ? "−" + util::format_seconds(beside) : "0");
    }
    for (const double seconds :
         {time.pace_s(), time.collective_s, time.sync_s, time.update_s, time.tie_s}) {
      row.emplace_back(seconds_cell(seconds));
    }
  }
  write_table(html, caption, columns, rows);
}

void write_memory_table(Html& html, const std::string& caption,
                        const std::vector<StageRecord>& stages) {
  std::vector<Column> columns{{"stage", true}};
  for (const auto& [name, amount] : kMemoryParts) columns.push_back({name, true});
  columns.insert(columns.end(), {{"total", true}, {"limit", true}, {"margin", true}});
  std::vector<std::vector<Cell>> rows;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const model::StageMemory& memory = stages[s].memory;
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(fmt::format("{}", s + 1));
    for (const auto& [name, amount] : kMemoryParts) {
      row.emplace_back(util::gibibytes_or_zero(memory.*amount));
    }
    for (const double bytes : {memory.total_bytes, memory.limit_bytes, memory.margin_bytes}) {
      row.emplace_back(util::gibibytes_or_zero(bytes));
    }
  }
  write_table(html, caption, columns, rows);
}

}  // namespace nestplan::report
