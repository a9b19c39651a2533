#include "nestplan/frameworks/recipe.hpp"

#include <gtest/gtest.h>

#include "util/expect_error.hpp"

namespace nestplan::frameworks {
namespace {

using Kind = model::StageConstraints::Layout;

TEST(Recipe, ForgetsWhatMakesNoDifference) {
  Recipe single;
  single.dp = 4;
  single.global_batch = 4;
  Recipe same = single;
  same.sequence_parallel = true;
  same.context = model::ContextForm::kAllToAll;
  same.vpp = 2;
  same.schedule = model::Schedule::kGPipe;
  same.order = placement::RankOrder::kDataLast;
  same.shard_groups = 2;  // of ZeRO 0
  EXPECT_EQ(normalised(same), single);

  Recipe alone = single;
  alone.zero = 3;
  alone.shard_groups = 4;  // every copy by itself
  EXPECT_EQ(normalised(alone), single);
  alone.shard_groups = 2;
  EXPECT_EQ(normalised(alone), alone);
  alone.cp = 2;  // context-parallel peers hold the same weights
  alone.shard_groups = 4;
  EXPECT_EQ(normalised(alone).zero, 3);
}

TEST(Recipe, KnowsHowLayersLie) {
  EXPECT_EQ(kind_of(dealt_out(12, 0, 4, 1), 4), Kind::kEven);
  EXPECT_EQ(kind_of(dealt_out(12, 1, 2, 2), 2), Kind::kEven);
  EXPECT_EQ(kind_of(dealt_out(10, 0, 4, 1, 2, 2), 4), Kind::kFirstLast);
  EXPECT_EQ(kind_of(dealt_out(10, 0, 4, 1, 2, 2), 2), Kind::kAny);  // chunks
  EXPECT_EQ(kind_of(dealt_out(6, 0, 4, 1, 0, 2), 4), Kind::kAny);  // a stage of the embedding alone
  EXPECT_EQ(kind_of({}, 1), Kind::kAny);
  targets::PipelineLayout late = dealt_out(12, 1, 4, 1);
  late[2].predictions = 1;
  late[3].predictions = 0;
  EXPECT_EQ(kind_of(late, 4), Kind::kAny);
}

TEST(Recipe, DealsLayersOut) {
  const targets::PipelineLayout layout = dealt_out(9, 2, 2, 2, 3, 2);
  EXPECT_EQ(targets::megatron_layout(layout), "Et*3|tt|tt|ttmmL");
  EXPECT_EQ(layers_of(layout), 9);
  EXPECT_EQ(predictions_of(layout), 2);
  for (const auto& broken : {+[] { dealt_out(9, 0, 4, 1); }, +[] { dealt_out(9, 0, 2, 1, 5, 5); },
                             +[] { dealt_out(9, 0, 1, 1, 4, 5); }}) {
    test::expect_contains(test::message_of(broken), "9 layers do not divide");
  }
}

}  // namespace
}  // namespace nestplan::frameworks
