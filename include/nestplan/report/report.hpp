#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::report {

/// What the search that wrote a plan knew of it.
struct Proof {
  model::Status status = model::Status::kOptimal;
  double lower_bound_s = 0;
  double gap = 0;
  std::string restrictions;  ///< of what it chose from: "tp 4, pp 8"; empty: the defaults
};

/// A plan that was not chosen.
struct Rival {
  std::string strategy;  ///< "dp 32 · pp 8 · tp 4"
  double iteration_time_s = 0;
  double memory_bytes = 0;  ///< of the fullest stage
  model::TimeSplit split;
};

/// How far one term of the costs may be off, all others being right, before another plan is faster.
struct Margin {
  struct Side {
    double share = 0;    ///< 0.1: by 10 %
    std::string winner;  ///< its strategy
  };
  std::string term;
  std::optional<Side> cheaper, dearer;
};

/// A plan one choice away from the one that was made, or why there is none.
struct Neighbour {
  std::string change;
  std::string verdict;  ///< a sentence
};

/// What was found out about other plans. Empty: nobody asked.
struct Alternatives {
  std::vector<Rival> rivals;  ///< the plan itself first
  std::vector<Margin> margins;
  std::vector<Neighbour> neighbours;
  std::vector<std::string> reasons;  ///< what decided, in sentences
  std::string left_out;              ///< why what was found out is not here, as a clause

  bool empty() const {
    return rivals.empty() && margins.empty() && neighbours.empty() && reasons.empty();
  }
};

/// All that a page about a plan tells. `plan` is one that cost::evaluate returned for `problem`.
struct PlanReport {
  const model::Problem& problem;
  const network::Network& network;
  const model::Plan& plan;
  std::string strategy;  ///< "dp 32 · pp 8 · tp 4"
  std::string precision;
  double peak_flops = 0;  ///< of a device in the mean, in that precision; 0: not known
  std::optional<Proof> proof;
  std::string no_proof;              ///< why there is none, as a clause
  std::string search_command;        ///< that leads to the plan; empty: not recorded
  std::string page_command;          ///< that leads to this page
  std::vector<std::string> remarks;  ///< what has to be known to run the plan
  Alternatives alternatives;
};

/// A page about one plan: HTML 5 in XML syntax, in one piece, with its figures as SVG and without
/// scripts. What the figures show is also there as text. The same report gives the same bytes.
///
/// With more devices, stages or micro-batches than a figure can hold, it draws a part, and says so:
/// one pod in full and the others as blocks; the first and the last stages; the beginning, the
/// middle and the end of the iteration. So a page stays below a megabyte.
///
/// Simulates an iteration, unless the plan is infeasible. Throws InvalidInput as cost::evaluate
/// does.
std::string plan_page(const PlanReport& report);

/// A stage as a plan file tells of it.
struct StageRecord {
  std::string layers;  ///< "layer.0–15"
  std::string strategy;
  std::int64_t devices = 0;
  std::string recompute;
  int zero = 0;
  model::StageTime time;
  model::StageMemory memory;
};

/// A job of a batch and what came of it. Numbers that are not known are 0.
struct JobRecord {
  std::string name;
  std::string status;
  std::string message;    ///< why there is no better news
  std::string plan_file;  ///< empty: there is none
  std::string model, cluster;
  std::string strategy;  ///< "dp 32 · pp 8 · tp 4"
  std::int64_t devices = 0;
  std::int64_t devices_used = 0;
  double global_batch = 0;
  double iteration_time_s = 0;
  double gap = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_device = 0;
  double model_tflops_per_device = 0;
  model::TimeSplit split;
  std::vector<StageRecord> stages;
};

/// A page about the jobs of a batch: a table of all, and a section for each.
std::string batch_page(const std::string& name, const std::vector<JobRecord>& jobs);

}  // namespace nestplan::report
