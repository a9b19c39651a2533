#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "nestplan/model/plan_terms.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"
#include "report/breakdowns.hpp"
#include "report/sections.hpp"
#include "report/table.hpp"

namespace nestplan::report {
namespace {

class Summary {
 public:
  Summary(Html& html, const PlanReport& report, const std::vector<StageRecord>& stages)
      : html_(html),
        report_(report),
        plan_(report.plan),
        graph_(report.problem.graph),
        stages_(stages) {
    const auto devices = static_cast<double>(model::devices_used(plan_));
    if (plan_.iteration_time_s <= 0) return;
    samples_ = static_cast<double>(report.problem.options.global_batch) / plan_.iteration_time_s;
    tokens_ = samples_ * graph_.tokens_per_sample.value_or(0);
    tokens_per_device_ = tokens_ / devices;
    flops_per_device_ = samples_ * graph_.model_flops_per_sample.value_or(0) / devices;
  }

  void write() {
    if (!feasible()) {
      html_.add("p", "The plan is infeasible: " + plan_.reason, {{"class", "alert"}});
    }
    if (plan_.iteration_time_s > 0) write_tiles();
    write_facts(html_, facts());
    if (flops_per_device_ > 0) html_.add("p", definition());
    for (const std::string& remark : report_.remarks) html_.add("p", "Note: " + remark + ".");
    html_.add("h3", "What binds");
    for (const std::string& sentence : binding()) html_.add("p", sentence);
    html_.add("h3", "How to get this plan and this page again");
    if (report_.search_command.empty()) {
      html_.add("p", "The plan's file does not record the search that found it.");
    } else {
      html_.add("pre", report_.search_command);
    }
    html_.add("pre", report_.page_command);
  }

 private:
  bool feasible() const { return plan_.status != model::Status::kInfeasible; }

  void tile(const std::string& figure, const std::string& what) {
    const auto item = html_.open("li");
    html_.add("b", figure);
    html_.add("span", what);
  }

  void write_tiles() {
    const auto list = html_.open("ul", {{"class", "tiles"}});
    tile(util::precise_seconds(plan_.iteration_time_s), "an iteration");
    if (tokens_ > 0) {
      tile(util::rate_text(tokens_), "tokens/s");
      tile(util::rate_text(tokens_per_device_), "tokens/s per device");
    } else {
      tile(util::rate_text(samples_), "samples/s");
    }
    if (flops_per_device_ > 0) {
      tile(fmt::format("{:.1f}", flops_per_device_ / 1e12), "model TFLOP/s per device");
      if (report_.peak_flops > 0) {
        tile(util::percent(flops_per_device_ / report_.peak_flops), "MFU");
      }
    }
    const model::StageMemory& memory = stages_[fullest_of(stages_)].memory;
    tile(util::percent(memory.total_bytes / memory.limit_bytes), "of the memory limit, at most");
  }

  Facts facts() const {
    return {{"model", graph_.name + ", " + util::counted(std::ssize(graph_.layers), "layer")},
            {"cluster", cluster()},
            {"batch", batch()},
            {"strategy", strategy()},
            {"optimality", optimality()},
            {"memory", memory()}};
  }

  std::string cluster() const {
    const model::Cluster& cluster = report_.problem.cluster;
    std::string types = cluster.device.name;
    for (const model::Device& other : cluster.other_devices) types += ", " + other.name;
    return fmt::format("{}: {} of {} in use ({})", cluster.name,
                       util::format_count(model::devices_used(plan_)),
                       util::counted(cluster.devices(), "device"), types);
  }

  std::string batch() const {
    const std::int64_t sequences = report_.problem.options.global_batch;
    std::string text = util::counted(sequences, "sequence");
    if (graph_.tokens_per_sample) {
      const double tokens = *graph_.tokens_per_sample;
      text += fmt::format(" × {} tokens = {} tokens", util::rate_text(tokens),
                          util::rate_text(tokens * static_cast<double>(sequences)));
    }
    return text;
  }

  std::string strategy() const {
    const model::PlanStrategy& s = plan_.strategy;
    return fmt::format("{} · {} micro-batch{} · {} · {} pod{} with {} cop{} of every stage",
                       report_.strategy, util::format_count(s.microbatches),
                       s.microbatches == 1 ? "" : "es", model::to_string(s.schedule),
                       util::format_count(s.dp_outer), s.dp_outer == 1 ? "" : "s", s.dp_inner,
                       s.dp_inner == 1 ? "y" : "ies");
  }

  std::string optimality() const {
    if (!feasible()) return "infeasible";
    if (!report_.proof) return "not known: " + report_.no_proof;
    const Proof& proof = *report_.proof;
    const std::string among = proof.restrictions.empty()
                                  ? "of all plans that the search's defaults allow"
                                  : "among plans with " + proof.restrictions;
    if (proof.status == model::Status::kOptimal) {
      return fmt::format("proven: {}, none is faster in this model (objective {})", among,
                         model::to_string(plan_.objective));
    }
    return fmt::format("stopped early: {}, none is faster than {} (gap {})", among,
                       util::precise_seconds(proof.lower_bound_s), util::percent(proof.gap));
  }

  std::string memory() const {
    const std::size_t fullest = fullest_of(stages_);
    const model::StageMemory& memory = stages_[fullest].memory;
    return fmt::format("{} of {} GiB on stage {}, the fullest", util::gibibytes(memory.total_bytes),
                       util::gibibytes(memory.limit_bytes), fullest + 1);
  }

  std::string definition() const {
    std::string text =
        "Model TFLOP/s count the forward and backward passes as the model defines them, without "
        "recomputation, over the devices in use";
    if (report_.peak_flops > 0) {
      text += fmt::format("; MFU (model FLOPs utilisation) is their share of the {} peak, {}",
                          report_.precision, util::format_si(report_.peak_flops, "FLOP/s"));
    }
    return text + ".";
  }

  std::vector<std::string> binding() const {
    std::vector<std::string> sentences;
    if (plan_.iteration_time_s > 0) {
      const std::size_t slowest = slowest_of(stages_);
      std::string pace = fmt::format("Stage {} sets the pace, {} a micro-batch", slowest + 1,
                                     util::precise_seconds(stages_[slowest].time.pace_s()));
      if (stages_.size() == 1) pace = "A single stage: nothing waits for another";
      sentences.push_back(
          fmt::format("{}. The largest part of the iteration: {}.", pace, largest_part()));
    }
    const std::size_t fullest = fullest_of(stages_);
    const model::StageMemory& memory = stages_[fullest].memory;
    const double left = memory.limit_bytes - memory.total_bytes;
    sentences.push_back(
        left >= 0 ? fmt::format("Memory is fullest on stage {}: {} GiB are left of the limit.",
                                fullest + 1, util::gibibytes_or_zero(left))
                  : fmt::format("Memory binds on stage {}: {} GiB are missing.", fullest + 1,
                                util::gibibytes(-left)));
    for (const std::string& reason : report_.alternatives.reasons) sentences.push_back(reason);
    return sentences;
  }

  std::string largest_part() const {
    const auto most = std::max_element(model::kPlanTerms.begin(), model::kPlanTerms.end(),
                                       [&](const model::PlanTerm& a, const model::PlanTerm& b) {
                                         return plan_.split.*a.seconds < plan_.split.*b.seconds;
                                       });
    return fmt::format("{} ({})", most->name,
                       util::percent(plan_.split.*most->seconds / plan_.iteration_time_s));
  }

  Html& html_;
  const PlanReport& report_;
  const model::Plan& plan_;
  const model::Graph& graph_;
  const std::vector<StageRecord>& stages_;
  double samples_ = 0;  ///< a second
  double tokens_ = 0;
  double tokens_per_device_ = 0;
  double flops_per_device_ = 0;
};

}  // namespace

void write_summary(Html& html, const PlanReport& report, const std::vector<StageRecord>& stages) {
  Summary(html, report, stages).write();
}

}  // namespace nestplan::report
