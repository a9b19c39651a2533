#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "facts/readings.hpp"
#include "nestplan/cost/memory.hpp"

namespace nestplan::facts {
namespace {

constexpr double kMostMedian = 0.08;
constexpr double kMostNinth = 0.20;  ///< of the 90th percentile

struct Errors {
  std::vector<double> absolute;

  /// The value that `share` of all do not exceed.
  double quantile(double share) {
    std::sort(absolute.begin(), absolute.end());
    const double rank = std::ceil(share * static_cast<double>(absolute.size()));
    return absolute[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  }
};

void print(const Reading& reading) {
  if (!reading.left_out.empty()) {
    std::printf("%-20s left out: %s\n", reading.name.c_str(), reading.left_out.c_str());
  } else if (reading.published_bytes == 0) {
    std::printf("%-20s %-11s out of memory   predicted %8.2f GB\n", reading.name.c_str(),
                to_string(reading.quantity), reading.predicted_bytes / 1e9);
  } else {
    std::printf("%-20s %-11s %9.3f GB     predicted %9.3f GB  %+6.1f %%%s\n", reading.name.c_str(),
                to_string(reading.quantity), reading.published_bytes / 1e9,
                reading.predicted_bytes / 1e9, 100 * reading.error(),
                reading.inferred.empty() ? "" : ("  inferred: " + reading.inferred).c_str());
  }
}

void print(const std::string& of, Errors& errors) {
  std::printf("%-26s %4zu rows   median %5.2f %%   90th percentile %5.2f %%\n", of.c_str(),
              errors.absolute.size(), 100 * errors.quantile(0.5), 100 * errors.quantile(0.9));
}

/// What is judged together.
const char* view_of(Quantity quantity) {
  const bool allocator = quantity == Quantity::kAllocated || quantity == Quantity::kReserved;
  return allocator ? "allocator" : to_string(quantity);
}

class MemoryFacts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!directory()) GTEST_SKIP() << "there are no published facts beside the checkout";
  }
};

TEST_F(MemoryFacts, PredictionsAreCloseToWhatWasPublished) {
  std::map<std::string, Errors> by_source;
  std::map<std::string, Errors> by_view;
  Errors all;
  for (const Reading& reading : memory_readings(*directory())) {
    print(reading);
    if (!reading.left_out.empty() || !reading.inferred.empty()) continue;
    if (reading.published_bytes == 0) continue;
    const double error = std::abs(reading.error());
    for (Errors* errors : {&by_source[reading.source], &by_view[view_of(reading.quantity)], &all}) {
      errors->absolute.push_back(error);
    }
  }
  for (auto& [source, errors] : by_source) print(source, errors);
  for (auto& [view, errors] : by_view) {
    print(view, errors);
    EXPECT_LE(errors.quantile(0.5), kMostMedian) << view;
    EXPECT_LE(errors.quantile(0.9), kMostNinth) << view;
  }
  print("all", all);
  EXPECT_GT(all.absolute.size(), 200U);
}

/// The most that a stage of the run takes, and the most that it may take, at the usual reserve.
struct Fit {
  double needed = 0;
  double limit = 0;
  bool fits() const { return needed <= limit; }
};

Fit fit_of(const Reading& reading) {
  const model::MemoryReserve reserve = usual_reserve();
  Fit fit;
  fit.limit = cost::memory_limit(reading.device_bytes, reserve);
  for (const model::StageMemory& stage : account(*reading.run, reserve)) {
    fit.needed = std::max(fit.needed, stage.total_bytes);
  }
  return fit;
}

/// Whether the reading says anything about what fits.
bool expect_as_published(const Reading& reading,
                         const std::map<std::string, std::string>& exceptions) {
  if (!reading.left_out.empty()) print(reading);
  if (!reading.run || reading.device_bytes == 0) return false;
  const Fit fit = fit_of(reading);
  const bool ran = reading.published_bytes > 0;
  const auto exception = exceptions.find(reading.name);
  std::printf("%-28s %-14s needs %8.2f of %7.2f GB%s\n", reading.name.c_str(),
              ran ? "ran" : "out of memory", fit.needed / 1e9, fit.limit / 1e9,
              exception == exceptions.end() ? "" : ("  " + exception->second).c_str());
  if (exception != exceptions.end()) return false;
  EXPECT_EQ(fit.fits(), ran) << reading.name;
  return true;
}

TEST_F(MemoryFacts, WhatRanFitsAndWhatDidNotDoesNot) {
  const std::string mean_of_chunks =
      "its first chunk is a block short and the one that is most in flight, where the model takes "
      "the mean of the chunks";
  const std::map<std::string, std::string> exceptions{
      {"bigscience 82",
       "in the same table a run with as many parameters in a stage (94 blocks of 13312) takes 67 "
       "GB"},
      {"bigscience-021", "it ran, and took 76 GB; the source calls it too close to the limit"},
      {"bridge-036", mean_of_chunks},
      {"bridge-084", mean_of_chunks},
      {"bridge-133", mean_of_chunks},
      {"bridge-213", mean_of_chunks}};
  int ran = 0;
  int did_not_fit = 0;
  for (const auto& table : {memory_readings(*directory()), throughput_readings(*directory())}) {
    for (const Reading& reading : table) {
      if (!expect_as_published(reading, exceptions)) continue;
      ++(reading.published_bytes > 0 ? ran : did_not_fit);
    }
  }
  EXPECT_GT(ran, 500);
  EXPECT_GE(did_not_fit, 6);
}

}  // namespace
}  // namespace nestplan::facts
