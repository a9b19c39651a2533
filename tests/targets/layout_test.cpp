#include "nestplan/targets/layout.hpp"

#include <gtest/gtest.h>

#include <string>

#include "nestplan/util/errors.hpp"
#include "util/expect_error.hpp"

namespace nestplan::targets {
namespace {

using test::expect_contains;

/// Why Megatron-LM does not take it for 4 layers; "" if it does.
std::string problem_of(const std::string& text, std::int64_t predictions, std::int64_t pp,
                       std::int64_t vpp) {
  const PipelineLayout layout = parse_megatron_layout(text);
  try {
    check_layout(layout, 4, predictions, pp, vpp);
  } catch (const InvalidConfig& error) {
    return error.what();
  }
  return "";
}

/// NVIDIA/Megatron-LM pipeline_parallel_layer_layout.py, validate_layer_layout.
TEST(Layout, PredictionsAreInOneVirtualStageBehindAllLayers) {
  EXPECT_EQ(problem_of("Ett|ttmmL", 2, 2, 1), "");
  EXPECT_EQ(problem_of("Ett|tt|mm|L", 2, 4, 1), "");
  EXPECT_EQ(problem_of("Et|tt|tmm|L", 2, 2, 2), "");
  EXPECT_EQ(problem_of("Ett|tt|m|mL", 2, 4, 1),
            "layout: 2 parts hold prediction modules, but one must hold all");
  EXPECT_EQ(problem_of("Ett|tmm|t|L", 2, 4, 1),
            "layout: no layer may stand behind the prediction modules");
  expect_contains(problem_of("Et|tttmm||L", 2, 2, 2),
                  "prediction modules are in part 2 of 4, but must be in one of the last 2");
}

TEST(Layout, PartsWithPredictionsAreCounted) {
  EXPECT_EQ(parts_with_predictions(parse_megatron_layout("Ett|ttL")), 0);
  EXPECT_EQ(parts_with_predictions(parse_megatron_layout("Ett|ttmmL")), 1);
  EXPECT_EQ(parts_with_predictions(parse_megatron_layout("Ettm|ttmL")), 2);
}

}  // namespace
}  // namespace nestplan::targets
