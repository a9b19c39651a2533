#include "baselines/inter_stage.hpp"

#include <coin/Cbc_C_Interface.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::baselines {
namespace {

using util::idx;

constexpr double kUnbounded = std::numeric_limits<double>::max();

/// A linear expression over columns of the program.
struct Row {
  std::vector<int> columns;
  std::vector<double> coefficients;

  void add(int column, double coefficient) {
    columns.push_back(column);
    coefficients.push_back(coefficient);
  }
};

/// The program as CBC takes it. Times are scaled, so that its tolerances suit them.
class Model {
 public:
  Model(const InterStageProgram& program, double unit_s)
      : program_(program), unit_s_(unit_s), model_(Cbc_newModel(), &Cbc_deleteModel) {
    Cbc_setLogLevel(model_.get(), 0);
    Cbc_setObjSense(model_.get(), 1);
    const auto rounds = static_cast<double>(program.microbatches - 1);
    slowest_ = add_column(0, kUnbounded, rounds, false);
    latest_ = add_column(-kUnbounded, kUnbounded, 1, false);
    add_choices();
    add_rows();
  }

  void set_cutoff(double seconds) { Cbc_setCutoff(model_.get(), seconds / unit_s_); }

  InterStageAnswer solve(double time_limit_s, int nodes) {
    if (std::isfinite(time_limit_s)) {
      Cbc_setMaximumSeconds(model_.get(), std::max(0.0, time_limit_s));
    }
    Cbc_setMaximumNodes(model_.get(), nodes);
    Cbc_solve(model_.get());
    return {best(), end()};
  }

 private:
  struct Choice {
    int column = 0;
    std::size_t stage = 0;
    InterStageChoice what;
    StagePoint point;  ///< scaled
  };

  InterStageAnswer::End end() const {
    using enum InterStageAnswer::End;
    Cbc_Model* model = model_.get();
    if (Cbc_isSecondsLimitReached(model) != 0) return kTime;
    if (Cbc_isNodeLimitReached(model) != 0) return kNodes;
    if (Cbc_status(model) <= 0) return kProven;  // -1: before the first branch
    throw InternalError(fmt::format("CBC ended with status {}, secondary status {}",
                                    Cbc_status(model), Cbc_secondaryStatus(model)));
  }

  std::optional<InterStagePlan> best() const {
    const double* values = Cbc_bestSolution(model_.get());
    if (values == nullptr || Cbc_isProvenInfeasible(model_.get()) != 0) return std::nullopt;
    InterStagePlan plan;
    plan.stages.resize(program_.points.size());
    for (const Choice& choice : choices_) {
      if (values[choice.column] > 0.5) plan.stages[choice.stage] = choice.what;
    }
    for (const InterStageChoice& stage : plan.stages) {
      if (stage.blocks == 0) return std::nullopt;
    }
    plan.seconds = objective_s(program_, plan.stages);
    return plan;
  }

  int add_column(double low, double high, double cost, bool integer) {
    Cbc_addCol(model_.get(), std::to_string(columns_).c_str(), low, high, cost, integer ? 1 : 0, 0,
               nullptr, nullptr);
    return columns_++;
  }

  void add_row(const Row& row, char sense, double right) {
    Cbc_addRow(model_.get(), std::to_string(rows_++).c_str(), static_cast<int>(row.columns.size()),
               row.columns.data(), row.coefficients.data(), sense, right);
  }

  /// z_(i,j,k): stage `i` has `j` blocks and runs them in its way `k`.
  void add_choices() {
    for (std::size_t i = 0; i < program_.points.size(); ++i) {
      for (std::size_t j = 0; j < program_.points[i].size(); ++j) {
        const auto& ways = program_.points[i][j];
        for (std::size_t k = 0; k < ways.size(); ++k) {
          const StagePoint scaled{ways[k].stable_s / unit_s_, ways[k].delta_s / unit_s_};
          choices_.push_back(
              {add_column(0, 1, scaled.stable_s, true),
               i,
               {program_.least_blocks + static_cast<std::int64_t>(j), static_cast<int>(k)},
               scaled});
        }
      }
    }
  }

  void add_rows() {
    Row all_blocks;
    for (const Choice& choice : choices_) {
      all_blocks.add(choice.column, static_cast<double>(choice.what.blocks));
    }
    add_row(all_blocks, 'E', static_cast<double>(program_.blocks));
    for (std::size_t i = 0; i < program_.points.size(); ++i) {
      Row one;
      Row slowest;  // max t ≥ t_i
      Row latest;   // max d ≥ d_i - Σ_(j<i) t_j
      for (const Choice& choice : choices_) {
        if (choice.stage > i) break;
        if (choice.stage < i) {
          latest.add(choice.column, choice.point.stable_s);
          continue;
        }
        one.add(choice.column, 1);
        slowest.add(choice.column, -choice.point.stable_s);
        latest.add(choice.column, -choice.point.delta_s);
      }
      slowest.add(slowest_, 1);
      latest.add(latest_, 1);
      add_row(one, 'E', 1);
      add_row(slowest, 'G', 0);
      add_row(latest, 'G', 0);
    }
  }

  const InterStageProgram& program_;
  double unit_s_;
  std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> model_;
  int columns_ = 0;
  int rows_ = 0;
  int slowest_ = 0;
  int latest_ = 0;
  std::vector<Choice> choices_;
};

/// The mean of the stages' fastest ways, over their numbers of blocks; 0 if a stage has none.
double mean_stage_s(const InterStageProgram& program) {
  double sum = 0;
  std::int64_t count = 0;
  for (const auto& stage : program.points) {
    const std::int64_t before = count;
    for (const auto& ways : stage) {
      for (const StagePoint& way : ways) {
        sum += way.stable_s;
        ++count;
      }
    }
    if (count == before) return 0;
  }
  return sum / static_cast<double>(std::max<std::int64_t>(1, count));
}

}  // namespace

double objective_s(const InterStageProgram& program, const std::vector<InterStageChoice>& stages) {
  double slowest = 0;
  double sum = 0;
  double latest = -kUnbounded;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const StagePoint& point =
        program.points[i][idx(stages[i].blocks - program.least_blocks)][idx(stages[i].point)];
    slowest = std::max(slowest, point.stable_s);
    latest = std::max(latest, point.delta_s - sum);
    sum += point.stable_s;
  }
  return static_cast<double>(program.microbatches - 1) * slowest + sum + latest;
}

InterStageAnswer solve(const InterStageProgram& program, double better_than_s, double time_limit_s,
                       int nodes) {
  const double unit_s = mean_stage_s(program);
  if (unit_s <= 0) return {};
  Model model(program, unit_s);
  if (std::isfinite(better_than_s)) model.set_cutoff(better_than_s);
  InterStageAnswer answer = model.solve(time_limit_s, nodes);
  if (answer.plan && answer.plan->seconds >= better_than_s) answer.plan.reset();
  return answer;
}

}  // namespace nestplan::baselines
