#include "nestplan/network/slurm_topology.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "nestplan/util/host_list.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::network {
namespace {

using test::expect_contains;
using test::message_of;
using testing::Dice;
using Names = std::vector<std::string>;
using Blocks = std::vector<std::int32_t>;

SlurmTopology parse(const std::string& text) { return parse_slurm_topology(text, "topology.conf"); }

std::string refusal(const std::string& text) {
  return message_of([&] { parse(text); });
}

/// The cluster with levels that say nothing but their names.
model::Cluster lowered(const SlurmTopology& topology, std::int64_t devices, std::size_t levels) {
  model::NetworkLevel node;
  node.name = "node";
  std::vector<model::NetworkLevel> above(levels);
  for (std::size_t l = 0; l < levels; ++l) {
    above[l].name = "l" + std::to_string(l + 1);
    above[l].bandwidth = 1e9 / static_cast<double>(l + 1);
  }
  model::Cluster cluster;
  set_slurm_topology(cluster, topology, devices, node, above);
  EXPECT_EQ(cluster.places(), devices * std::ssize(cluster.hosts));
  return cluster;
}

TEST(SlurmTree, OfTheManual) {
  const SlurmTopology topology = parse(R"(
##################################################################
# topology/tree plugin
##################################################################
SwitchName=s0 Nodes=dev[0-5]
SwitchName=s1 Nodes=dev[6-11]
SwitchName=s2 Nodes=dev[12-17]
SwitchName=s3 Switches=s[0-2]
)");
  EXPECT_EQ(topology.hosts, util::expand_hosts("dev[0-17]"));
  ASSERT_EQ(topology.levels.size(), 2U);
  EXPECT_EQ(topology.levels[0].names, (Names{"s0", "s1", "s2"}));
  EXPECT_EQ(topology.levels[1].names, Names{"s3"});
  EXPECT_EQ(levels_above_hosts(topology), 2);
  const model::Cluster cluster = lowered(topology, 8, 2);
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].fanout, 8);
  EXPECT_EQ(levels[1].fanout, 6);
  EXPECT_TRUE(levels[1].fanouts.empty());
  EXPECT_EQ(levels[2].fanout, 3);
  EXPECT_EQ(cluster.hosts[17], (model::Host{"dev17", 8, {}}));
}

TEST(SlurmTree, KeysCommentsAndContinuedLines) {
  const SlurmTopology topology = parse(
      "switchname=top SWITCHES=\"b,a\"   # the root comes first\r\n"
      "SwitchName=a nodes=n[3-4],n1 LinkSpeed=100 \\\n"
      "\n"
      "  SwitchName=b \\\n"
      "  Nodes=n2\n"
      "SwitchName=empty\n");
  EXPECT_EQ(topology.hosts, (Names{"n2", "n3", "n4", "n1"}));
  EXPECT_EQ(topology.levels[0].block, (Blocks{0, 1, 1, 1}));
  EXPECT_EQ(topology.levels[0].names, (Names{"b", "a"}));
}

TEST(SlurmTree, UnevenBranches) {
  const SlurmTopology topology = parse(
      "SwitchName=l0 Nodes=a\n"
      "SwitchName=l1 Nodes=b,c\n"
      "SwitchName=l2 Nodes=d\n"
      "SwitchName=m Switches=l[0-1]\n"
      "SwitchName=top Switches=m,l2\n");
  ASSERT_EQ(topology.levels.size(), 3U);
  EXPECT_EQ(topology.levels[0].names, (Names{"l0", "l1", "l2"}));
  EXPECT_EQ(topology.levels[1].names, (Names{"m", ""}));
  const model::Cluster cluster = lowered(topology, 4, 3);
  const auto& levels = cluster.hierarchy().levels;
  EXPECT_EQ(levels[1].fanouts, (std::vector<std::int64_t>{1, 2, 1}));
  EXPECT_EQ(levels[2].fanouts, (std::vector<std::int64_t>{2, 1}));
  EXPECT_TRUE(levels[3].fanouts.empty());
  EXPECT_EQ(levels[3].fanout, 2);
}

TEST(SlurmTree, SeveralRootsNeedOneMoreLevel) {
  const SlurmTopology topology = parse("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n");
  EXPECT_EQ(topology.roots(), 2);
  EXPECT_EQ(levels_above_hosts(topology), 2);
  EXPECT_EQ(lowered(topology, 1, 2).hierarchy().levels[2].fanout, 2);
}

TEST(SlurmTree, ErrorsNameTheLine) {
  EXPECT_EQ(refusal("SwitchName=a Nodes=n1\n\nSwitchName=a Nodes=n2\n"),
            "topology.conf: line 3: switch a has been given on line 1 already");
  EXPECT_EQ(refusal("SwitchName=a Nods=n1"),
            "topology.conf: line 1: unknown key \"Nods\" (did you mean \"Nodes\"?)");
  expect_contains(refusal("SwitchName=a Nodes=n1\nSwitchName=b Switches=c"),
                  "line 2: there is no switch \"c\"");
  expect_contains(refusal("SwitchName=a Nodes=n[1-3\n"), "line 1: Nodes: \"n[1-3\": position 2");
  expect_contains(refusal("SwitchName=a Nodes=n1 Switches=b"), "has both Nodes and Switches");
  expect_contains(refusal("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1"),
                  "line 2: node n1 is in a already");
  expect_contains(refusal("SwitchName=a Nodes=n1,n1"), "a lists node n1 twice");
  expect_contains(refusal("SwitchName=a Switches=b\nSwitchName=b Switches=a"), "is below itself");
  expect_contains(
      refusal("SwitchName=a Nodes=n1\nSwitchName=b Switches=a\nSwitchName=c Switches=a"),
      "line 3: switch a is below b already");
  expect_contains(refusal("SwitchName=a Nodes=n1 Nodes=n2"), "Nodes is given twice");
  expect_contains(refusal("SwitchName=a Nodes=\"n1"), "is not closed");
  expect_contains(refusal("SwitchName=a Nodes"), "expected key=value");
  expect_contains(refusal("Nodes=n1 SwitchName=a"), "a line starts with SwitchName");
  expect_contains(refusal("SwitchName=a"), "no switch has Nodes");
  expect_contains(refusal("# nothing\n"), "neither a SwitchName nor a BlockName");
  expect_contains(refusal("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2"), "not for both");
  expect_contains(refusal("SwitchName=a Nodes=n1 BlockSizes=4"), "BlockSizes is not for a line");
  std::string deep = "SwitchName=s0 Nodes=n1\n";
  for (int i = 1; i < 30; ++i) {
    deep += "SwitchName=s" + std::to_string(i) + " Switches=s" + std::to_string(i - 1) + "\n";
  }
  expect_contains(refusal(deep), "more than 20 levels");
}

TEST(SlurmBlocks, OfTheManual) {
  const SlurmTopology topology = parse(
      "BlockName=block1 Nodes=node[1-32]\nBlockName=block2 Nodes=node[33-64]\n"
      "BlockName=block3 Nodes=node[65-96]\nBlockName=block4 Nodes=node[97-128]\n"
      "BlockSizes=30,120\n");
  ASSERT_EQ(topology.levels.size(), 2U);
  EXPECT_EQ(topology.levels[0].names.size(), 4U);
  EXPECT_EQ(topology.levels[1].names.size(), 1U);
  EXPECT_EQ(lowered(topology, 4, 2).hierarchy().levels[1].fanout, 32);
}

TEST(SlurmBlocks, SizesAreLevels) {
  std::string text = "BlockSizes=18,36,72\n";
  for (int b = 0; b < 6; ++b) {
    text += "BlockName=b" + std::to_string(b) + " Nodes=r" + std::to_string(b) + "n[1-18]\n";
  }
  const SlurmTopology topology = parse(text);
  // blocks, pairs, fours and, as these do not hold all six, all of them
  ASSERT_EQ(topology.levels.size(), 4U);
  const auto levels = lowered(topology, 4, 4).hierarchy().levels;
  EXPECT_EQ(levels[1].fanout, 18);
  EXPECT_EQ(levels[2].fanout, 2);
  EXPECT_TRUE(levels[2].fanouts.empty());
  EXPECT_EQ(levels[3].fanouts, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(levels[4].fanout, 2);
}

TEST(SlurmBlocks, WithoutSizes) {
  EXPECT_EQ(parse("BlockName=a Nodes=n[1-4]\n").levels.size(), 1U);
  EXPECT_EQ(parse("BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n5\n").levels.size(), 2U);
}

TEST(SlurmBlocks, Errors) {
  const std::string block = "BlockName=a Nodes=n[1-4]\n";
  expect_contains(refusal(block + "BlockSizes=5"), "has 4 nodes, less than the base size of 5");
  expect_contains(refusal(block + "BlockSizes=2,6"),
                  "line 2: BlockSizes: 6 is not 2 times a power");
  expect_contains(refusal(block + "BlockSizes=2,x"), "\"x\" is no number of nodes");
  expect_contains(refusal(block + "BlockSizes=4,4"), "sizes must ascend");
  expect_contains(refusal(block + "BlockSizes=4\nBlockSizes=4"), "given on line 2 already");
  expect_contains(refusal(block + "BlockName=a Nodes=n5"), "block a has been given on line 1");
  expect_contains(refusal("BlockName=a"), "block a has no Nodes");
  expect_contains(refusal("BlockName=a LinkSpeed=1 Nodes=b"), "LinkSpeed is not for a line");
  expect_contains(refusal("BlockSizes=4"), "neither");
}

TEST(SlurmTopology, DamagedTextsAreReadOrRefused) {
  const std::vector<std::string> samples{
      "SwitchName=s0 Nodes=n[0-5] LinkSpeed=1 # leaf\nSwitchName=s1 \\\n Nodes=\"n[6-11]\"\n"
      "SwitchName=s3 Switches=s[0-1]\n",
      "BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[5-8]\nBlockSizes=2,4,8\n"};
  Dice dice(32);
  int refused = 0;
  for (std::uint64_t i = 0; i < testing::seeds(3000); ++i) {
    std::string text = dice.pick(samples);
    for (std::int64_t edits = dice.between(1, 3); edits > 0; --edits) {
      const auto where = static_cast<std::size_t>(dice.between(0, std::ssize(text) - 1));
      if (dice.chance(50)) {
        text[where] =
            dice.pick({'=', '[', ']', ',', '-', ' ', '\n', '\\', '"', '#', 's', '0', '\xff'});
      } else {
        text.erase(where, static_cast<std::size_t>(dice.between(1, 6)));
      }
    }
    try {
      const SlurmTopology topology = parse(text);
      ASSERT_FALSE(topology.hosts.empty());
      for (const SlurmTopology::Level& level : topology.levels) {
        ASSERT_EQ(level.block.size(), topology.hosts.size()) << text;
        ASSERT_EQ(level.block.back() + 1, std::ssize(level.names)) << text;
      }
      lowered(topology, 2, static_cast<std::size_t>(levels_above_hosts(topology)));
    } catch (const InvalidInput& error) {
      ++refused;
      ASSERT_TRUE(std::string(error.what()).starts_with("topology.conf: ")) << error.what();
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(SlurmTopology, IsToldFromJson) {
  EXPECT_TRUE(is_slurm_topology("# c\n\n  switchname=a Nodes=b"));
  EXPECT_TRUE(is_slurm_topology("BlockSizes=4"));
  EXPECT_FALSE(is_slurm_topology("{\"format\": 1}"));
  EXPECT_FALSE(is_slurm_topology(""));
}

TEST(SlurmTopology, OfSomeHosts) {
  const SlurmTopology all = parse(
      "SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[4-6]\nSwitchName=c Nodes=n[7-9]\n"
      "SwitchName=top Switches=a,b,c\n");
  const SlurmTopology some = with_hosts(all, util::expand_hosts("n8,n1,x2,n9,x1"));
  EXPECT_EQ(some.hosts, (Names{"n1", "n8", "n9"}));
  EXPECT_EQ(some.levels[0].names, (Names{"a", "c"}));
  EXPECT_EQ(some.levels[0].block, (Blocks{0, 1, 1}));
  EXPECT_EQ(some.unknown, (Names{"x2", "x1"}));
  expect_contains(message_of([&] { with_hosts(all, Names{"n1", "n1"}); }), "given twice");
  expect_contains(message_of([&] { with_hosts(all, Names{"x"}); }), "none of the hosts");
}

/// Each is as far from the others as from everything.
TEST(SlurmTopology, UnknownHostsAreApart) {
  const SlurmTopology all = parse("SwitchName=a Nodes=n[1-3]\n");
  const SlurmTopology some = with_hosts(all, util::expand_hosts("x[1-2],n[1-3]"));
  EXPECT_EQ(levels_above_hosts(some), 1);
  for (const std::size_t given : {1U, 2U}) {
    const model::Cluster cluster = lowered(some, 8, given);
    const auto& levels = cluster.hierarchy().levels;
    ASSERT_EQ(levels.size(), 3U);
    EXPECT_EQ(levels[1].fanouts, (std::vector<std::int64_t>{3, 1, 1}));
    EXPECT_EQ(levels[2].fanout, 3);
    EXPECT_EQ(levels[2].name, kUnknownPlace);
    EXPECT_EQ(levels[2].bandwidth, 1e9 / static_cast<double>(given));
    EXPECT_EQ(cluster.hosts[3].name, "x1");
  }
}

/// A random tree written as a topology.conf, lines in any order, gives back its fan-outs.
TEST(SlurmTopology, RandomTrees) {
  Dice dice(31);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const std::int64_t levels = dice.between(1, 4);
    std::vector<std::vector<std::int64_t>> fanouts;
    std::int64_t blocks = 1;
    for (std::int64_t l = 0; l < levels; ++l) {
      std::vector<std::int64_t> list;
      for (std::int64_t b = 0; b < blocks; ++b) list.push_back(dice.between(1, 4));
      blocks = std::accumulate(list.begin(), list.end(), std::int64_t{0});
      fanouts.insert(fanouts.begin(), list);
    }
    Names lines;
    for (std::size_t l = 0; l < fanouts.size(); ++l) {
      std::int64_t child = 0;
      for (std::size_t b = 0; b < fanouts[l].size(); ++b) {
        Names children;
        for (std::int64_t c = 0; c < fanouts[l][b]; ++c, ++child) {
          children.push_back((l == 0 ? "n" : "s" + std::to_string(l - 1) + "x") +
                             std::to_string(child));
        }
        lines.push_back("SwitchName=s" + std::to_string(l) + "x" + std::to_string(b) +
                        (l == 0 ? " Nodes=" : " Switches=") + util::compress_hosts(children));
      }
    }
    for (std::size_t k = lines.size(); k > 1; --k) {
      std::swap(lines[k - 1],
                lines[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(k) - 1))]);
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const SlurmTopology topology = parse(text);
    ASSERT_EQ(topology.levels.size(), fanouts.size()) << text;
    const auto lowered_levels = lowered(topology, 2, fanouts.size()).hierarchy().levels;
    for (std::size_t l = 0; l < fanouts.size(); ++l) {
      std::vector<std::int64_t> list = lowered_levels[l + 1].fanouts;
      if (list.empty()) list.assign(fanouts[l].size(), lowered_levels[l + 1].fanout);
      ASSERT_EQ(list, fanouts[l]) << text;
    }
    for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
      ASSERT_EQ(topology.hosts[h], "n" + std::to_string(h)) << text;
    }
  }
}

}  // namespace
}  // namespace nestplan::network
