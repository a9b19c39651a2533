#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "facts/table.hpp"
#include "facts/throughput_runs.hpp"
#include "nestplan/calibrate/fit.hpp"
#include "nestplan/cost/device_models.hpp"
#include "support/seeds.hpp"

/// Predicted iteration times beside measured ones, and what it costs to choose by them.
namespace nestplan::facts {
namespace {

// What holds, with a little room. Two or three parameters of each generation's model are fitted to
// these rows (cost/device_models.hpp). BigScience timed single iterations, of which some differ by
// 40 % without a reason that its tables give, and gained 10 % from micro-batches of 4 instead of 2
// at tp 8, which no term explains: its sweeps limit regret and concordance.
constexpr double kMostMedian = 0.06;
constexpr double kMostNinth = 0.19;  ///< of the 90th percentile
constexpr double kMostHeldOutMedian = 0.065;
constexpr double kMostHeldOutNinth = 0.205;
constexpr std::size_t kFittedRuns = 24;  ///< for the prediction of one source
constexpr double kMostMeanRegret = 0.065;
constexpr double kLeastConcordance = 0.38;   ///< in the mean
constexpr std::size_t kLeastStrategies = 3;  ///< of a sweep

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(share * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// Relative errors of predicted times.
struct Errors {
  std::vector<double> with_sign, absolute;

  void add(double error) {
    with_sign.push_back(error);
    absolute.push_back(std::abs(error));
  }
  double median() const { return quantile(absolute, 0.5); }
  double ninth() const { return quantile(absolute, 0.9); }
};

void print(const std::string& of, const Errors& errors) {
  std::printf("%-36s %4zu rows   median %+6.1f %%   absolute %5.1f %%   90th percentile %5.1f %%\n",
              of.c_str(), errors.absolute.size(), 100 * quantile(errors.with_sign, 0.5),
              100 * errors.median(), 100 * errors.ninth());
}

/// Share of the best measured throughput that is lost by choosing the least predicted time; of
/// several the one that is measured to be slowest.
double regret_of(const std::vector<double>& measured, const std::vector<double>& predicted) {
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < measured.size(); ++i) {
    if (std::pair(predicted[i], -measured[i]) < std::pair(predicted[chosen], -measured[chosen])) {
      chosen = i;
    }
  }
  return 1 - *std::min_element(measured.begin(), measured.end()) / measured[chosen];
}

/// Kendall's τ_b: concordant pairs less discordant ones, over the geometric mean of the pairs that
/// are no ties in the one and in the other.
double concordance_of(const std::vector<double>& measured, const std::vector<double>& predicted) {
  double score = 0, measured_pairs = 0, predicted_pairs = 0;
  for (std::size_t a = 0; a < measured.size(); ++a) {
    for (std::size_t b = a + 1; b < measured.size(); ++b) {
      const double by_measured = measured[b] - measured[a];
      const double by_predicted = predicted[b] - predicted[a];
      if (by_measured != 0) ++measured_pairs;
      if (by_predicted != 0) ++predicted_pairs;
      if (by_measured * by_predicted != 0) score += by_measured * by_predicted > 0 ? 1 : -1;
    }
  }
  const double pairs = std::sqrt(measured_pairs * predicted_pairs);
  return pairs > 0 ? score / pairs : 0;
}

/// How well strategies are ranked.
struct Ranking {
  double regret = 0;
  double concordance = 0;
};

/// Relative scatter of repeated measurements.
struct Scatter {
  double squares = 0;
  double freedom = 0;

  void add(const std::vector<double>& repeated) {
    std::vector<double> logs;
    for (const double seconds : repeated) logs.push_back(std::log(seconds));
    const double centre = mean(logs);
    for (const double log : logs) squares += (log - centre) * (log - centre);
    freedom += static_cast<double>(repeated.size() - 1);
  }
  double deviation() const { return freedom > 0 ? std::sqrt(squares / freedom) : 0; }
};

/// Strategies of one model on one machine with one batch.
struct Sweep {
  struct Entry {
    std::vector<double> measured_s;  ///< of every run that tried it
    double predicted_s = 0;
  };
  std::string source;
  std::map<std::string, Entry> strategies;

  /// Sources show some runs in several tables, with the same time to the last digit.
  void add(const TimedRun& timed) {
    source = timed.source;
    Entry& entry = strategies[timed.strategy];
    entry.predicted_s = timed.predicted_s;
    std::vector<double>& all = entry.measured_s;
    if (std::find(all.begin(), all.end(), timed.measured_s) == all.end()) {
      all.push_back(timed.measured_s);
    }
  }

  std::vector<double> measured() const {
    std::vector<double> means;
    for (const auto& [name, entry] : strategies) means.push_back(mean(entry.measured_s));
    return means;
  }
  std::vector<double> predicted() const {
    std::vector<double> times;
    for (const auto& [name, entry] : strategies) times.push_back(entry.predicted_s);
    return times;
  }
  Ranking ranking() const {
    return {regret_of(measured(), predicted()), concordance_of(measured(), predicted())};
  }

  /// What a model without error reaches in the mean where times scatter so about what it predicts,
  /// which is taken to be what was measured.
  Ranking best_ranking(double deviation) const {
    constexpr int kDraws = 2000;
    std::mt19937_64 engine;
    std::normal_distribution<double> normal;
    const std::vector<double> truth = measured();
    Ranking sum;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<double> drawn = truth;
      std::size_t i = 0;
      for (const auto& [name, entry] : strategies) {
        const auto runs = static_cast<double>(entry.measured_s.size());
        drawn[i++] *= std::exp(deviation / std::sqrt(runs) * normal(engine));
      }
      sum.regret += regret_of(drawn, truth) / kDraws;
      sum.concordance += concordance_of(drawn, truth) / kDraws;
    }
    return sum;
  }

  void print_choice() const {
    const auto least = [&](auto value) {
      return *std::min_element(
          strategies.begin(), strategies.end(),
          [&](const auto& a, const auto& b) { return value(a.second) < value(b.second); });
    };
    const auto seconds = [](const Entry& entry) { return mean(entry.measured_s); };
    const auto fastest = least(seconds);
    const auto chosen =
        least([&](const Entry& entry) { return std::pair(entry.predicted_s, -seconds(entry)); });
    std::printf("   fastest %s: %.2f s; ranked first %s: %.2f s\n", fastest.first.c_str(),
                seconds(fastest.second), chosen.first.c_str(), seconds(chosen.second));
  }
};

class ThroughputFacts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (const auto facts = directory()) runs_ = timed_runs(*facts);
  }
  void SetUp() override {
    if (runs_.empty()) GTEST_SKIP() << "there are no published facts beside the checkout";
  }

  static std::vector<TimedRun> runs_;
};

std::vector<TimedRun> ThroughputFacts::runs_;

TEST_F(ThroughputFacts, EveryRunIsReadOrLeftOutForAReason) {
  std::map<std::string, int> reasons;
  int read = 0;
  for (const TimedRun& timed : runs_) {
    if (timed.left_out.empty()) {
      ++read;
    } else {
      ++reasons[timed.source + ": " + timed.left_out];
    }
  }
  for (const auto& [reason, rows] : reasons) std::printf("%4d %s\n", rows, reason.c_str());
  EXPECT_GT(read, 400);
}

TEST_F(ThroughputFacts, PredictedTimesAreCloseToMeasuredOnes) {
  std::map<std::string, Errors> by_source, by_gpu;
  Errors all;
  for (const TimedRun& timed : runs_) {
    if (!timed.left_out.empty()) continue;
    std::printf("%-18s %9.3f s predicted, %9.3f s measured  %+6.1f %%\n", timed.name.c_str(),
                timed.predicted_s, timed.measured_s, 100 * timed.error());
    for (Errors* errors : {&by_source[timed.source], &by_gpu[timed.gpu], &all}) {
      errors->add(timed.error());
    }
  }
  for (const auto& [source, errors] : by_source) print(source, errors);
  for (const auto& [gpu, errors] : by_gpu) print(gpu, errors);
  print("all", all);
  EXPECT_LE(all.median(), kMostMedian);
  EXPECT_LE(all.ninth(), kMostNinth);
}

/// Parameters after some of `runs`, evenly spread, from those of a device that nobody knows.
model::DeviceModel fitted(const std::vector<const TimedRun*>& runs) {
  model::Device unknown = runs.front()->cluster.device;
  unknown.name = "accelerator";
  const cost::DeviceGeneration general = cost::generation_of(unknown);
  const std::size_t step = std::max<std::size_t>(1, runs.size() / kFittedRuns);
  std::vector<calibrate::Sample> samples;
  for (std::size_t i = 0; i < runs.size(); i += step) {
    const TimedRun& run = *runs[i];
    samples.push_back({run.name, run.strategy, "all", run.measured_s,
                       [&run](const model::DeviceModel& model) { return run.seconds(model); }});
  }
  return calibrate::fit(samples, {general.model, general.relative_error}).model;
}

TEST_F(ThroughputFacts, EverySourceIsPredictedFromTheOthers) {
  constexpr std::uint64_t kUsual = 100;
  if (testing::seeds(kUsual) < kUsual) GTEST_SKIP() << "fits take minutes in a slow build";
  Errors all;
  for (const char* gpu : {"A100", "H100"}) {
    std::map<std::string, std::vector<const TimedRun*>> by_source;
    for (const TimedRun& timed : runs_) {
      if (timed.left_out.empty() && timed.gpu.starts_with(gpu)) {
        by_source[timed.source].push_back(&timed);
      }
    }
    for (const auto& [source, runs] : by_source) {
      std::vector<const TimedRun*> others;
      for (const auto& [other, of_other] : by_source) {
        if (other != source) others.insert(others.end(), of_other.begin(), of_other.end());
      }
      const model::DeviceModel model = fitted(others);
      Errors errors;
      for (const TimedRun* timed : runs) {
        errors.add(timed->seconds(model) / timed->measured_s - 1);
        all.add(errors.with_sign.back());
      }
      print(std::string(gpu) + " " + source + ", from the others", errors);
    }
  }
  print("all of them", all);
  EXPECT_LE(all.median(), kMostHeldOutMedian);
  EXPECT_LE(all.ninth(), kMostHeldOutNinth);
}

TEST_F(ThroughputFacts, TheStrategyRankedFirstIsNearlyTheFastest) {
  std::map<std::string, Sweep> sweeps;
  for (const TimedRun& timed : runs_) {
    if (timed.left_out.empty()) sweeps[timed.sweep].add(timed);
  }
  std::map<std::string, Scatter> scatter;
  for (const auto& [name, sweep] : sweeps) {
    for (const auto& [strategy, entry] : sweep.strategies) {
      scatter[sweep.source].add(entry.measured_s);
    }
  }
  std::vector<double> regrets, concordances, least_regrets, most_concordances;
  for (const auto& [name, sweep] : sweeps) {
    if (sweep.strategies.size() < kLeastStrategies) continue;
    const Ranking reached = sweep.ranking();
    const Ranking best = sweep.best_ranking(scatter[sweep.source].deviation());
    regrets.push_back(reached.regret);
    concordances.push_back(reached.concordance);
    least_regrets.push_back(best.regret);
    most_concordances.push_back(best.concordance);
    std::printf(
        "%-72s %2zu strategies   regret %5.1f %%, without any error %4.1f %%   tau %+5.2f, "
        "without any error %+5.2f\n",
        name.c_str(), sweep.strategies.size(), 100 * reached.regret, 100 * best.regret,
        reached.concordance, best.concordance);
    sweep.print_choice();
  }
  for (const auto& [source, of_source] : scatter) {
    if (of_source.freedom == 0) continue;
    std::printf("%s: repeated runs scatter by %.1f %% (%.0f repetitions)\n", source.c_str(),
                100 * of_source.deviation(), of_source.freedom);
  }
  ASSERT_FALSE(regrets.empty());
  std::printf("%zu sweeps: regret %.1f %% in the mean, %.1f %% at most; tau %.2f in the mean\n",
              regrets.size(), 100 * mean(regrets), 100 * quantile(regrets, 1), mean(concordances));
  std::printf("a model without any error, measured so: regret %.1f %%, tau %.2f\n",
              100 * mean(least_regrets), mean(most_concordances));
  EXPECT_LE(mean(regrets), kMostMeanRegret);
  EXPECT_GE(mean(concordances), kLeastConcordance);
}

}  // namespace
}  // namespace nestplan::facts
