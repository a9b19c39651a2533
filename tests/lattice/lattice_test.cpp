#include "nestplan/lattice/lattice.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::lattice {
namespace {

using Edges = std::vector<std::pair<int, int>>;

model::Graph graph_of(int layers, const Edges& edges) {
  model::Graph graph;
  graph.name = "test";
  for (int i = 0; i < layers; ++i) graph.layers.push_back({fmt::format("n{}", i), {}});
  for (const auto& [from, to] : edges) graph.edges.push_back({from, to, {}});
  return graph;
}

model::Graph chain(int layers) {
  Edges edges;
  for (int i = 0; i + 1 < layers; ++i) edges.emplace_back(i, i + 1);
  return graph_of(layers, edges);
}

/// Two chains of `n` layers side by side.
model::Graph two_branches(int n) {
  Edges edges;
  for (int i = 0; i + 1 < n; ++i) {
    edges.emplace_back(i, i + 1);
    edges.emplace_back(n + i, n + i + 1);
  }
  return graph_of(2 * n, edges);
}

/// Up to 12 layers whose indices are no topological order.
model::Graph random_graph(testing::Dice& dice) {
  const int layers = static_cast<int>(dice.between(1, 12));
  std::vector<int> name(static_cast<std::size_t>(layers));
  for (int i = 0; i < layers; ++i) name[static_cast<std::size_t>(i)] = i;
  for (std::size_t i = name.size(); i-- > 1;) {
    std::swap(name[i], name[static_cast<std::size_t>(dice.between(0, static_cast<int>(i)))]);
  }
  const int percent = static_cast<int>(dice.pick({5, 15, 30, 60, 100}));
  Edges edges;
  for (std::size_t from = 0; from < name.size(); ++from) {
    for (std::size_t to = from + 1; to < name.size(); ++to) {
      if (dice.chance(percent)) edges.emplace_back(name[from], name[to]);
    }
  }
  return graph_of(layers, edges);
}

bool is_downset(const model::Graph& graph, std::uint64_t set) {
  return std::all_of(graph.edges.begin(), graph.edges.end(), [set](const model::Edge& edge) {
    return (set >> edge.from & 1U) == 0 || (set >> edge.to & 1U) != 0;
  });
}

TEST(Lattice, CountsDownsets) {
  for (const int n : {1, 2, 5, 12}) {
    EXPECT_EQ(Lattice::enumerate(chain(n)).size(), n + 1);
    EXPECT_EQ(Lattice::enumerate(two_branches(n)).size(), (n + 1) * (n + 1));
    EXPECT_EQ(Lattice::enumerate(graph_of(n, {})).size(), 1 << n);
  }
}

TEST(Lattice, HoldsExactlyTheDownsets) {
  testing::Dice dice(1);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const model::Graph graph = random_graph(dice);
    const Lattice lattice = Lattice::enumerate(graph);
    std::set<std::uint64_t> found;
    for (DownsetId d = 0; d < lattice.size(); ++d) found.insert(lattice.members(d)[0]);
    EXPECT_EQ(found.size(), static_cast<std::size_t>(lattice.size()));
    std::set<std::uint64_t> expected;
    for (std::uint64_t set = 0; set < std::uint64_t{1} << graph.layers.size(); ++set) {
      if (is_downset(graph, set)) expected.insert(set);
    }
    ASSERT_EQ(found, expected) << "instance " << i;
  }
}

void expect_consistent(const Lattice& lattice) {
  EXPECT_EQ(lattice.cardinality(0), 0);
  EXPECT_EQ(lattice.cardinality(lattice.whole()), lattice.layers());
  bool ordered = true;
  for (DownsetId d = 0; d < lattice.size(); ++d) {
    int members = 0;
    for (int layer = 0; layer < lattice.layers(); ++layer) members += lattice.contains(d, layer);
    ASSERT_EQ(lattice.cardinality(d), members);
    DownsetId next = d;
    while (next < lattice.size() && lattice.cardinality(next) == members) ++next;
    ASSERT_EQ(lattice.next_wave(d), next);
    if (d == 0) continue;
    const auto before = lattice.members(d - 1);
    const auto here = lattice.members(d);
    const bool less =
        std::lexicographical_compare(before.begin(), before.end(), here.begin(), here.end());
    ASSERT_TRUE(lattice.cardinality(d - 1) < members ||
                (lattice.cardinality(d - 1) == members && less))
        << d;
    ordered = ordered && lattice.subset(d - 1, d);
  }
  EXPECT_EQ(lattice.totally_ordered(), ordered);
}

TEST(Lattice, IsOrderedByCardinalityThenMembers) {
  testing::Dice dice(2);
  for (std::uint64_t i = 0; i < testing::seeds(200); ++i) {
    expect_consistent(Lattice::enumerate(random_graph(dice)));
    ASSERT_FALSE(HasFailure()) << "instance " << i;
  }
  EXPECT_TRUE(Lattice::enumerate(chain(7)).totally_ordered());
  EXPECT_FALSE(Lattice::enumerate(two_branches(2)).totally_ordered());
}

TEST(Lattice, StepsLeadToTheDownsetsOneLayerLarger) {
  testing::Dice dice(6);
  for (std::uint64_t i = 0; i < testing::seeds(200); ++i) {
    const Lattice lattice = Lattice::enumerate(random_graph(dice));
    for (DownsetId d = 0; d < lattice.size(); ++d) {
      std::vector<DownsetId> expected;
      for (DownsetId e = d + 1; e < lattice.size(); ++e) {
        if (lattice.cardinality(e) == lattice.cardinality(d) + 1 && lattice.subset(d, e)) {
          expected.push_back(e);
        }
      }
      const auto above = lattice.above(d);
      ASSERT_EQ(std::vector<DownsetId>(above.begin(), above.end()), expected) << i << ": " << d;
      if (d == 0) continue;
      const auto back = lattice.above(lattice.below(d));
      ASSERT_NE(std::find(back.begin(), back.end(), d), back.end()) << i << ": " << d;
    }
  }
}

TEST(Lattice, StepsOfAChainAreItsStages) {
  const Lattice lattice = Lattice::of_chain(chain(5), {{0, 1}, {2}, {3, 4}});
  for (DownsetId d = 0; d < lattice.whole(); ++d) {
    const auto above = lattice.above(d);
    ASSERT_EQ(std::vector<DownsetId>(above.begin(), above.end()), std::vector<DownsetId>{d + 1});
    EXPECT_EQ(lattice.below(d + 1), d);
  }
  EXPECT_TRUE(lattice.above(lattice.whole()).empty());
}

/// Memory that another process filled: nothing is written, what is read is what was shared.
class OthersStorage final : public util::Storage {
 public:
  explicit OthersStorage(std::vector<std::vector<std::byte>>& arrays,
                         std::vector<std::int64_t>& numbers, bool fills)
      : arrays_(arrays), numbers_(numbers), fills_(fills) {}
  bool fills() const override { return fills_; }
  std::int64_t agree(std::int64_t value) override {
    if (fills_) numbers_.push_back(value);
    return numbers_[next_number_++];
  }

 protected:
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes) override {
    if (fills_) arrays_.emplace_back(bytes);
    return {arrays_[next_array_++].data(), [](std::byte*) {}};
  }

 private:
  std::vector<std::vector<std::byte>>& arrays_;
  std::vector<std::int64_t>& numbers_;
  bool fills_;
  std::size_t next_array_ = 0, next_number_ = 0;
};

TEST(Lattice, IsTheSameInSharedMemory) {
  testing::Dice dice(7);
  const Lattice mine = Lattice::enumerate(random_graph(dice));
  std::vector<std::vector<std::byte>> arrays;
  arrays.reserve(100);
  std::vector<std::int64_t> numbers;
  OthersStorage first(arrays, numbers, true);
  OthersStorage second(arrays, numbers, false);
  Lattice::shared(mine, first);
  const Lattice theirs = Lattice::shared(std::nullopt, second);
  ASSERT_EQ(theirs.size(), mine.size());
  EXPECT_EQ(theirs.totally_ordered(), mine.totally_ordered());
  for (DownsetId d = 0; d < mine.size(); ++d) {
    EXPECT_TRUE(theirs.subset(d, d) &&
                mine.difference(theirs.whole(), d) == theirs.difference(mine.whole(), d));
    EXPECT_EQ(theirs.next_wave(d), mine.next_wave(d));
    EXPECT_TRUE(std::ranges::equal(theirs.above(d), mine.above(d)));
    EXPECT_EQ(theirs.below(d), mine.below(d));
  }
}

TEST(Lattice, SubsetsAndDifferences) {
  testing::Dice dice(3);
  for (std::uint64_t i = 0; i < testing::seeds(100); ++i) {
    const model::Graph graph = random_graph(dice);
    const Lattice lattice = Lattice::enumerate(graph);
    for (int pair = 0; pair < 50; ++pair) {
      const auto a = static_cast<DownsetId>(dice.between(0, lattice.whole()));
      const auto b = static_cast<DownsetId>(dice.between(0, lattice.whole()));
      const std::uint64_t members_a = lattice.members(a)[0];
      const std::uint64_t members_b = lattice.members(b)[0];
      ASSERT_EQ(lattice.subset(a, b), (members_a | members_b) == members_b);
      std::vector<int> expected;
      for (int layer = 0; layer < lattice.layers(); ++layer) {
        if (lattice.contains(b, layer) && !lattice.contains(a, layer)) expected.push_back(layer);
      }
      ASSERT_EQ(lattice.difference(b, a), expected);
    }
  }
}

TEST(Lattice, ManyLayersTakeSeveralWords) {
  const Lattice row = Lattice::enumerate(chain(200));
  EXPECT_EQ(row.words(), 4);
  EXPECT_EQ(row.size(), 201);
  expect_consistent(row);
  EXPECT_EQ(row.difference(135, 130), (std::vector<int>{65, 66, 67, 68, 69}));

  const Lattice branches = Lattice::enumerate(two_branches(40));
  EXPECT_EQ(branches.words(), 2);
  EXPECT_EQ(branches.size(), 41 * 41);
  expect_consistent(branches);
}

TEST(Lattice, WordBoundaries) {
  for (const int layers : {63, 64, 65, 127, 128, 129}) {
    const Lattice lattice = Lattice::enumerate(chain(layers));
    EXPECT_EQ(lattice.words(), (layers + 63) / 64);
    EXPECT_EQ(lattice.size(), layers + 1);
    for (DownsetId d = 0; d < lattice.size(); ++d) {
      // the last `d` layers of the chain
      ASSERT_EQ(lattice.cardinality(d), d);
      ASSERT_TRUE(d == layers || !lattice.contains(d, layers - d - 1));
      ASSERT_TRUE(d == 0 || lattice.contains(d, layers - d));
    }
  }
}

TEST(Lattice, RefusesTooManyDownsets) {
  const model::Graph wide = graph_of(12, {});
  EXPECT_EQ(Lattice::enumerate(wide, 4096).size(), 4096);
  try {
    Lattice::enumerate(wide, 4095);
    FAIL() << "no error";
  } catch (const MemoryLimit& error) {
    EXPECT_EQ(static_cast<int>(error.code()), 6);
    EXPECT_NE(std::string(error.what()).find("4095"), std::string::npos) << error.what();
  }
}

TEST(ChainLattice, HoldsTheStagesFromTheLast) {
  const model::Graph graph = two_branches(2);  // 0→1, 2→3
  const Lattice lattice = Lattice::of_chain(graph, {{2, 0}, {1}, {3}});
  ASSERT_EQ(lattice.size(), 4);
  expect_consistent(lattice);
  EXPECT_EQ(lattice.difference(1, 0), std::vector<int>{3});
  EXPECT_EQ(lattice.difference(2, 1), std::vector<int>{1});
  EXPECT_EQ(lattice.difference(3, 2), (std::vector<int>{0, 2}));
}

TEST(ChainLattice, RefusesWhatIsNoPipeline) {
  const model::Graph graph = chain(3);
  const auto refusal = [&](const std::vector<std::vector<int>>& stages) {
    return test::message_of([&] { Lattice::of_chain(graph, stages); });
  };
  test::expect_contains(refusal({{0}, {2}, {1}}), "n1");       // feeds 2, an earlier stage
  test::expect_contains(refusal({{0, 1}, {1, 2}}), "n1");      // twice
  test::expect_contains(refusal({{1}, {2}}), "n0");            // left out
  test::expect_contains(refusal({{0}, {}, {1, 2}}), "stage");  // empty
}

}  // namespace
}  // namespace nestplan::lattice
