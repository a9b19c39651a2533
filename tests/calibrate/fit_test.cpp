#include "nestplan/calibrate/fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cost/samples.hpp"
#include "nestplan/cost/device_models.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/util/errors.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::calibrate {
namespace {

using model::DeviceModel;
using test::h100;
using testing::Dice;
using testing::seeds;

constexpr double kNoise = 0.02;
constexpr int kOutlierPercent = 10;

Prior prior() {
  const cost::DeviceGeneration hopper = cost::generation_of(h100());
  return {hopper.model, hopper.relative_error};
}

/// Up to 15 % away from the prior, where samples of `operators` can tell.
DeviceModel truth(Dice& dice) {
  DeviceModel model = prior().model;
  const auto shift = [&dice](double& value) {
    value *= 1 + 0.01 * static_cast<double>(dice.between(-15, 15));
  };
  shift(model.matmul_efficiency);
  shift(model.attention_forward_efficiency);
  shift(model.attention_backward_efficiency);
  shift(model.memory_efficiency);
  model.kernel_s *= 1.5;
  return model;
}

cost::Operator some_operator(Dice& dice) {
  const auto size = [&dice](std::int64_t low, std::int64_t high) {
    return static_cast<double>(std::int64_t{1} << dice.between(low, high));
  };
  switch (dice.between(0, 3)) {
    case 0:
      return cost::Matmul{size(11, 14), size(11, 14), size(11, 14)};
    case 1: {
      const double tokens = size(11, 14);
      cost::Attention attention{1, tokens, 32, 8, 128, tokens * tokens / 2};
      attention.backward = dice.chance(50);
      return attention;
    }
    case 2:
      return cost::MemoryBound{size(26, 32)};
    default:
      return cost::MemoryBound{size(10, 16)};  // the launch alone
  }
}

double seconds(const cost::Operator& op, const DeviceModel& parameters) {
  model::Device device = h100();
  device.model = parameters;
  return cost::AnalyticalCostModel(device, cost::precision_of("bf16")).seconds(op);
}

/// Roughly normal, of variance 1: the sum of twelve uniform numbers.
double normal(Dice& dice) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += 1e-6 * static_cast<double>(dice.between(0, 1'000'000));
  return sum;
}

Sample sample_of(const cost::Operator& op, const DeviceModel& true_model, double factor,
                 std::size_t index) {
  Sample sample;
  sample.where = "sample " + std::to_string(index);
  sample.group = sample.where;
  sample.measured_s = seconds(op, true_model) * factor;
  sample.seconds = [op](const DeviceModel& parameters) { return seconds(op, parameters); };
  return sample;
}

struct Synthetic {
  DeviceModel true_model;
  std::vector<Sample> samples;
  std::vector<std::size_t> outliers;
};

/// With noise, and some times that something else has made 1.5 to 3 times as long.
Synthetic synthetic(std::uint64_t seed, std::size_t count) {
  Dice dice(seed);
  Synthetic all;
  all.true_model = truth(dice);
  for (std::size_t i = 0; i < count; ++i) {
    double factor = std::exp(kNoise * normal(dice));
    if (dice.chance(kOutlierPercent)) {
      factor *= 1.5 + 0.01 * static_cast<double>(dice.between(0, 150));
      all.outliers.push_back(i);
    }
    all.samples.push_back(sample_of(some_operator(dice), all.true_model, factor, i));
  }
  return all;
}

const FittedParameter& fitted(const Fit& fit, const std::string& name) {
  const auto found = std::find_if(fit.parameters.begin(), fit.parameters.end(),
                                  [&](const auto& p) { return p.parameter->name == name; });
  return *found;
}

class RecoversParameters : public ::testing::TestWithParam<Loss> {};

TEST_P(RecoversParameters, FromNoisyTimesAmongOutliers) {
  for (std::uint64_t seed = 1; seed <= seeds(10); ++seed) {
    SCOPED_TRACE(seed);
    const Synthetic all = synthetic(seed, 120);
    FitOptions options;
    options.loss = GetParam();
    const Fit found = fit(all.samples, prior(), options);
    const double tolerance = GetParam() == Loss::kCauchy ? 0.03 : 0.05;
    for (const char* name : {"matmul_efficiency", "attention_forward_efficiency",
                             "attention_backward_efficiency", "memory_efficiency", "kernel_time"}) {
      SCOPED_TRACE(name);
      const FittedParameter& parameter = fitted(found, name);
      EXPECT_TRUE(parameter.determined);
      const double right = all.true_model.*parameter.parameter->value;
      EXPECT_NEAR(parameter.after / right, 1, tolerance);
      EXPECT_LT(parameter.relative_error_after, parameter.relative_error_before);
    }
    EXPECT_LT(error_size(all.samples, found.after_s).median, 2 * kNoise);
    EXPECT_LT(error_size(all.samples, found.held_out_s).median, 2 * kNoise);
    for (const std::size_t outlier : all.outliers) {
      EXPECT_NE(std::find(found.outliers.begin(), found.outliers.end(), outlier),
                found.outliers.end());
    }
    EXPECT_LE(found.outliers.size(), all.outliers.size() + 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, RecoversParameters, ::testing::Values(Loss::kCauchy, Loss::kHuber),
                         [](const auto& loss) {
                           return loss.param == Loss::kCauchy ? "Cauchy" : "Huber";
                         });

TEST(Fit, KeepsWhatIsNotMeasured) {
  Dice dice(7);
  const DeviceModel true_model = truth(dice);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < 12; ++i) {
    const double size = 2048 + 512 * static_cast<double>(i);
    samples.push_back(sample_of(cost::Matmul{size, size, size}, true_model, 1, i));
  }
  const Fit found = fit(samples, prior());
  EXPECT_TRUE(fitted(found, "matmul_efficiency").determined);
  EXPECT_NEAR(found.model.matmul_efficiency / true_model.matmul_efficiency, 1, 0.02);
  for (const FittedParameter& parameter : found.parameters) {
    if (parameter.determined) continue;
    SCOPED_TRACE(parameter.parameter->name);
    EXPECT_EQ(parameter.after, parameter.before);
    EXPECT_EQ(parameter.relative_error_after, parameter.relative_error_before);
    EXPECT_EQ(found.model.*parameter.parameter->value, prior().model.*parameter.parameter->value);
  }
  for (const char* name : {"narrow_matmul_efficiency", "unaligned_matmul_efficiency",
                           "attention_forward_efficiency", "memory_efficiency"}) {
    EXPECT_FALSE(fitted(found, name).determined) << name;
  }
}

TEST(Fit, LeavesAloneWhatIsKnownExactly) {
  Prior known = prior();
  known.relative_error.memory_efficiency = 0;
  known.model.kernel_s = 0;
  const Fit found = fit(synthetic(2, 60).samples, known);
  for (const FittedParameter& parameter : found.parameters) {
    const std::string name = parameter.parameter->name;
    EXPECT_EQ(parameter.exact, name == "memory_efficiency" || name == "kernel_time") << name;
    EXPECT_FALSE(parameter.exact && parameter.determined) << name;
  }
  EXPECT_EQ(found.model.memory_efficiency, known.model.memory_efficiency);
}

TEST(Fit, TellsWhatIsAtItsBound) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < 12; ++i) {
    const double size = 4096 + 512 * static_cast<double>(i);
    samples.push_back(sample_of(cost::Matmul{size, size, size}, prior().model, 0.55, i));
  }
  Prior vague = prior();
  vague.relative_error.matmul_efficiency = 1;
  const Fit found = fit(samples, vague);
  EXPECT_TRUE(fitted(found, "matmul_efficiency").at_bound);
  EXPECT_NEAR(found.model.matmul_efficiency, 1, 1e-5);
  EXPECT_FALSE(fitted(fit(synthetic(2, 60).samples, prior()), "matmul_efficiency").at_bound);
}

TEST(Fit, RefusesTimesInAnotherUnit) {
  const std::vector<Sample> seconds = synthetic(4, 20).samples;
  for (const double factor : {1000.0, 0.001}) {
    std::vector<Sample> wrong = seconds;
    for (Sample& sample : wrong) sample.measured_s *= factor;
    EXPECT_THROW(fit(wrong, prior()), InvalidInput) << factor;
  }
  std::vector<Sample> one = seconds;
  one.front().measured_s *= 1000;
  EXPECT_EQ(fit(one, prior()).outliers.front(), 0U);
}

/// Groups that contradict each other: what a fit learns from the others is wrong for each of them.
TEST(Fit, BeatsThePriorOnlyIfItPredictsWhatItHasNotSeen) {
  const std::vector<Sample> good = synthetic(6, 60).samples;
  EXPECT_EQ(beats_prior(good, fit(good, prior())), true);

  std::vector<Sample> contrary;
  for (std::size_t i = 0; i < 6; ++i) {
    const double size = 4096 + 512 * static_cast<double>(i);
    contrary.push_back(
        sample_of(cost::Matmul{size, size, size}, prior().model, i % 2 == 0 ? 0.8 : 1.25, i));
    contrary.back().group = i % 2 == 0 ? "fast" : "slow";
  }
  EXPECT_EQ(beats_prior(contrary, fit(contrary, prior())), false);

  std::vector<Sample> together = good;
  for (Sample& sample : together) sample.group = "all";
  EXPECT_EQ(beats_prior(together, fit(together, prior())), std::nullopt);
}

TEST(Fit, StaysWithinBoundsAndNearThePriorOnFewSamples) {
  Dice dice(3);
  const DeviceModel true_model = truth(dice);
  const Sample far = sample_of(cost::Matmul{8192, 8192, 8192}, true_model, 0.2, 0);
  const Fit found = fit(std::vector{far}, prior());
  EXPECT_LE(found.model.matmul_efficiency, 1);
  const Sample near = sample_of(cost::Matmul{8192, 8192, 8192}, prior().model, 1, 0);
  EXPECT_NEAR(fit(std::vector{near}, prior()).model.matmul_efficiency,
              prior().model.matmul_efficiency, 1e-6);
}

/// What is held out of a group is what a fit without the group says, though another would say so
/// much better.
TEST(Fit, HeldOutTimesAreFromFitsWithoutTheirGroup) {
  Dice dice(11);
  const DeviceModel true_model = truth(dice);
  std::vector<Sample> all, without;
  for (std::size_t i = 0; i < 24; ++i) {
    Sample sample = sample_of(some_operator(dice), true_model, i % 3 == 0 ? 2 : 1, i);
    sample.group = i % 3 == 0 ? "slow" : i % 3 == 1 ? "one" : "other";
    all.push_back(sample);
    if (sample.group != "slow") without.push_back(sample);
  }
  const Fit whole = fit(all, prior());
  ASSERT_EQ(whole.folds, 3);
  const DeviceModel others = fit(without, prior()).model;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    EXPECT_EQ(whole.held_out_s[i], all[i].seconds(others));
  }
  EXPECT_NE(whole.model, others);
}

TEST(Fit, OneGroupHasNothingToHoldOut) {
  std::vector<Sample> samples = synthetic(1, 8).samples;
  for (Sample& sample : samples) sample.group = "all";
  const Fit found = fit(samples, prior());
  EXPECT_EQ(found.folds, 0);
  EXPECT_TRUE(found.held_out_s.empty());
}

TEST(Fit, IsTheSameEveryTime) {
  const Synthetic all = synthetic(5, 40);
  EXPECT_EQ(fit(all.samples, prior()).model, fit(all.samples, prior()).model);
}

TEST(Fit, NeedsSamples) { EXPECT_THROW(fit({}, prior()), InvalidInput); }

TEST(ErrorSizes, AreQuantilesOfRelativeErrors) {
  std::vector<Sample> samples(10);
  std::vector<double> predicted;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].measured_s = 100;
    predicted.push_back(100 + (i % 2 == 0 ? 1.0 : -1.0) * static_cast<double>(i + 1));
  }
  EXPECT_NEAR(error_size(samples, predicted).median, 0.05, 1e-12);
  EXPECT_NEAR(error_size(samples, predicted).ninth, 0.09, 1e-12);
}

}  // namespace
}  // namespace nestplan::calibrate
