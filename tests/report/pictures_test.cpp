#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "report/block_picture.hpp"
#include "report/shapes.hpp"
#include "report/torus_picture.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::report {
namespace {

const std::string kCells = "(fill=\"url|class=\"(none|panel))";

model::HierarchySpec hierarchy(const std::vector<std::int64_t>& fanouts) {
  model::HierarchySpec spec;
  for (const std::int64_t fanout : fanouts) {
    model::NetworkLevel level;
    level.name = "level" + std::to_string(spec.levels.size());
    level.fanout = fanout;
    spec.levels.push_back(level);
  }
  return spec;
}

/// Stages of `unit` places side by side, pods of `pod` places.
std::vector<PlaceUse> uses(std::int64_t places, std::int64_t unit, std::int64_t pod) {
  std::vector<PlaceUse> all;
  for (std::int64_t place = 0; place < places; ++place) {
    all.push_back({PlaceUse::Kind::kBusy, place / pod, place % pod / unit, 0});
  }
  return all;
}

Looks looks(std::int64_t pp, std::int64_t pods) {
  model::PlanStrategy strategy;
  strategy.pp = pp;
  strategy.dp_outer = pods;
  strategy.dp = pods;
  return Looks(strategy);
}

TEST(BlockTree, CountsUnevenBlocks) {
  model::HierarchySpec spec = hierarchy({4, 3, 2});
  spec.levels[0].fanouts = {4, 2, 3, 4, 1};  // of five nodes
  spec.levels[1].fanouts = {2, 3};
  const BlockTree tree(spec);
  EXPECT_EQ(tree.places(), 14);
  EXPECT_EQ(tree.begin(1, 1), 6);
  EXPECT_EQ(tree.end(1, 1), 14);
  EXPECT_EQ(tree.block_of(0, 8), 2);
  EXPECT_EQ(tree.block_of(2, 13), 0);
  EXPECT_EQ(tree.begin(-1, 5), 5);
}

/// Every place of the span is a cell of its own, no two overlap, and all lie inside.
TEST(BlockPicture, CellsAreApartAndInside) {
  for (std::uint64_t seed = 0; seed < testing::seeds(60); ++seed) {
    testing::Dice dice(seed);
    std::vector<std::int64_t> fanouts;
    for (std::int64_t l = dice.between(1, 4); l > 0; --l) fanouts.push_back(dice.between(1, 6));
    model::HierarchySpec spec = hierarchy(fanouts);
    const BlockTree tree(spec);
    const std::int64_t unit = dice.between(1, 4);
    const auto all = uses(tree.places(), unit, tree.places());
    const std::int64_t begin = dice.between(0, tree.places() - 1);
    const PlaceSpan span{begin, dice.between(begin + 1, tree.places())};
    Html html;
    write_blocks(html, tree, all, looks(8, 1), span);
    const std::string& markup = html.str();
    const auto cells = testing::rectangles(markup, kCells);
    ASSERT_GE(static_cast<std::int64_t>(cells.size()), span.end - span.begin);
    const double width = testing::number_after(markup, "width=\"");
    const double height = testing::number_after(markup, "height=\"");
    EXPECT_LE(width, 850.5);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      EXPECT_GE(cells[i].x, 0);
      EXPECT_LE(cells[i].x + cells[i].width, width);
      EXPECT_LE(cells[i].y + cells[i].height, height);
      if (cells.size() > 600) continue;
      for (std::size_t j = 0; j < i; ++j) ASSERT_FALSE(testing::overlap(cells[i], cells[j]));
    }
  }
}

/// Of more places than there is room for, blocks are the cells, and stripes show who shares them.
TEST(BlockPicture, LargePodsAreDrawnByBlocks) {
  const BlockTree tree(hierarchy({8, 64, 32}));
  const PlaceSpan span{0, tree.places()};
  EXPECT_EQ(detail_of(tree, span).cells, 0);
  EXPECT_FALSE(detail_of(tree, span).labels);
  Html html;
  write_blocks(html, tree, uses(tree.places(), 260, tree.places()), looks(64, 1), span);
  const auto stripes = testing::rectangles(html.str(), "fill=\"url");
  EXPECT_EQ(stripes.size(), 64U * 32 + 32);  // every other stage ends inside of a node
  EXPECT_LT(html.str().size(), 150'000U);
}

TEST(PodPicture, ManyPodsShareBoxes) {
  const BlockTree tree(hierarchy({8, 64, 32}));
  std::vector<PlaceSpan> pods;
  for (std::int64_t p = 0; p < tree.places() / 4; ++p) pods.push_back({4 * p, 4 * p + 4});
  Html html;
  write_pods(html, tree, pods);
  EXPECT_LT(html.str().size(), 60'000U);
  EXPECT_NE(html.str().find("Each box stands for 16 pods"), std::string::npos);
}

TEST(PodPicture, PodsLieInTheBlocksAroundThem) {
  const BlockTree tree(hierarchy({8, 4, 2}));
  Html html;
  write_pods(html, tree, {{0, 16}, {16, 32}, {32, 48}, {48, 64}});
  EXPECT_EQ(testing::rectangles(html.str(), "class=\"edge").size(), 2U);   // level1 blocks
  EXPECT_EQ(testing::rectangles(html.str(), "class=\"panel").size(), 4U);  // pods
  EXPECT_NE(html.str().find("that hold them whole (level1)"), std::string::npos);
}

TEST(TorusPicture, EveryPlaceIsACell) {
  model::TorusSpec spec;
  spec.dimensions = {{"x", 4}, {"y", 6}, {"z", 3}};
  spec.host = {2, 2, 1};
  Html html;
  write_torus(html, spec, uses(72, 12, 36), looks(3, 2));
  const auto cells = testing::rectangles(html.str(), "fill=\"url");
  ASSERT_EQ(cells.size(), 72U);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) ASSERT_FALSE(testing::overlap(cells[i], cells[j]));
  }
  EXPECT_NE(html.str().find("z 2"), std::string::npos);
}

TEST(Looks, TellStagesApartOrElseCopies) {
  model::PlanStrategy strategy;
  strategy.pp = 4;
  strategy.dp_inner = 2;
  strategy.dp = strategy.dp_outer = 8;
  strategy.dp = 16;
  const PlaceUse use{PlaceUse::Kind::kBusy, 3, 2, 1};
  EXPECT_EQ(Looks(strategy).of(use), 2U);
  EXPECT_EQ(Looks(strategy).label(use), "3.2");
  EXPECT_EQ(Looks(strategy).count(), 4U);
  strategy.pp = 1;
  EXPECT_EQ(Looks(strategy).of(use), 7U);
  EXPECT_EQ(Looks(strategy).label(use), "8");
  EXPECT_EQ(Looks(strategy).count(), 8U);
}

}  // namespace
}  // namespace nestplan::report
