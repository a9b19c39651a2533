#pragma once

#include <string>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/report/report.hpp"
#include "report/html.hpp"

namespace nestplan::report {

/// Unlike things that the figures of this header draw at most.
inline constexpr std::size_t kBreakdownLooks = 8;

/// The stages of a plan as a plan file tells of them.
std::vector<StageRecord> records_of(const model::Plan& plan, const model::Graph& graph);

/// The stage that is nearest to its limit, or farthest beyond it. There is at least one.
std::size_t fullest_of(const std::vector<StageRecord>& stages);

/// The stage that takes longest for a micro-batch while the pipeline is full.
std::size_t slowest_of(const std::vector<StageRecord>& stages);

/// Where an iteration goes along its slowest stage: a bar, and a table of what it consists of.
/// `id`: of the figure.
void write_time_split(Html& html, const std::string& id, const model::TimeSplit& split);

/// A bar for each stage: what it holds, item by item, up to its limit and the margin beyond.
void write_memory_bars(Html& html, const std::string& id, const std::vector<StageRecord>& stages);

void write_stage_table(Html& html, const std::string& caption,
                       const std::vector<StageRecord>& stages);
void write_time_table(Html& html, const std::string& caption,
                      const std::vector<StageRecord>& stages);
void write_memory_table(Html& html, const std::string& caption,
                        const std::vector<StageRecord>& stages);

}  // namespace nestplan::report
