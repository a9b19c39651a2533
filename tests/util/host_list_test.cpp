#include "nestplan/util/host_list.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::util {
namespace {

using test::expect_contains;
using test::message_of;
using testing::Dice;
using Names = std::vector<std::string>;

std::string refusal(const std::string& list) {
  return message_of([&] { expand_hosts(list); });
}

TEST(HostList, Expands) {
  EXPECT_EQ(expand_hosts("a"), Names{"a"});
  EXPECT_EQ(expand_hosts("node[001-003,140]"), (Names{"node001", "node002", "node003", "node140"}));
  EXPECT_EQ(expand_hosts("rack[1-2]-node[01-03]"),
            (Names{"rack1-node01", "rack1-node02", "rack1-node03", "rack2-node01", "rack2-node02",
                   "rack2-node03"}));
  EXPECT_EQ(expand_hosts("b, a,,b"), (Names{"b", "a", "b"}));
  EXPECT_EQ(expand_hosts("n[8-011]"), (Names{"n8", "n9", "n10", "n11"}));
  EXPECT_EQ(expand_hosts("n[098-101]x"), (Names{"n098x", "n099x", "n100x", "n101x"}));
  EXPECT_EQ(expand_hosts("a[1-2][3-4]"), (Names{"a13", "a14", "a23", "a24"}));
  EXPECT_EQ(expand_hosts(""), Names{});
}

TEST(HostList, ErrorsNameThePosition) {
  EXPECT_EQ(refusal("a,n[3-1]"), R"("a,n[3-1]": position 5: the range ends before it starts)");
  EXPECT_EQ(refusal("n[1-3"), R"("n[1-3": position 2: the bracket is not closed)");
  expect_contains(refusal("n[1-"), "position 2: the bracket is not closed");
  expect_contains(refusal("n["), "position 2: the bracket is not closed");
  expect_contains(refusal("n[]"), "position 3: a number is missing");
  expect_contains(refusal("n[1,,2]"), "position 5: a number is missing");
  expect_contains(refusal("n[1-2,x]"), "position 7: a number is missing");
  expect_contains(refusal("n[1 - 2]"), "position 4: a number in brackets is followed by");
  expect_contains(refusal("n]"), "position 2: there is no \"[\"");
  expect_contains(refusal("n[[1-2]]"), "position 3: a number is missing");
  expect_contains(refusal("n[1-99999999999999999999]"), "position 5: the number is too long");
}

TEST(HostList, AbsurdSizesAreRefused) {
  EXPECT_EQ(expand_hosts("n[1-1048576]").size(), 1048576U);
  expect_contains(refusal("n[1-1048577]"), "more than 1,048,576 names");
  expect_contains(refusal("n[1-1048576],m"), "position 14: the list has more than");
  expect_contains(refusal("n[0-999999999999999999]"), "more than 1,048,576 names");
  expect_contains(refusal("r[1-1025]n[1-1024]"), "more than 1,048,576 names");
  expect_contains(refusal("a[1-999999]b[1-999999]c[1-999999]d[1-999999]"), "more than");
}

TEST(HostList, CompressesToRanges) {
  const auto compressed = [](const Names& names) { return compress_hosts(names); };
  EXPECT_EQ(compressed({}), "");
  EXPECT_EQ(compressed({"login"}), "login");
  EXPECT_EQ(compressed({"n7"}), "n7");
  EXPECT_EQ(compressed({"n1", "n2"}), "n[1-2]");
  EXPECT_EQ(compressed({"n9", "n10", "n11"}), "n[9-11]");
  EXPECT_EQ(compressed({"n08", "n09", "n10"}), "n[08-10]");
  EXPECT_EQ(compressed({"n3", "n1", "n2", "n2"}), "n[3,1-2,2]");
  EXPECT_EQ(compressed({"n001", "n02"}), "n[001,02]");
  EXPECT_EQ(compressed({"a1", "b", "a2"}), "a1,b,a2");
  EXPECT_EQ(compressed(expand_hosts("node[001-128,140]")), "node[001-128,140]");
  EXPECT_EQ(compressed(expand_hosts("rack[1-3]-node[01-04]")), "rack[1-3]-node[01-04]");
  EXPECT_EQ(compressed({"r1n1", "r2n1", "r3n1"}), "r[1-3]n[1]");
  EXPECT_EQ(compressed(expand_hosts("r[1-2]n[1-4],r3n[1-2]")), "r[1-2]n[1-4],r3n[1-2]");
  // Slurm reads no text behind a bracket
  EXPECT_EQ(compressed({"a1b", "a2b"}), "a1b,a2b");
}

TEST(HostList, CompressRefusesWhatNoListCanHold) {
  for (const char* name : {"", "a b", "a,b", "a[1]"}) {
    expect_contains(message_of([&] { compress_hosts(Names{"x", name}); }), "cannot be in a list");
  }
}

Names random_names(Dice& dice, bool long_numbers) {
  Names names;
  for (auto entries = dice.between(1, 6); entries > 0; --entries) {
    std::string prefix = dice.pick({"n", "rack", "a-", "x1y", "", "r07-"});
    const std::int64_t kind = dice.between(0, 4);
    const auto number = [&](std::int64_t value) {
      std::string digits = std::to_string(value);
      const auto width = static_cast<std::size_t>(dice.chance(50) ? 3 : 1);
      return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
    };
    if (kind == 0) {
      names.push_back(prefix + "login");
    } else if (kind <= 2) {
      const std::int64_t first = dice.between(0, 120);
      for (std::int64_t i = first; i <= first + dice.between(0, 12); ++i) {
        names.push_back(prefix + number(i));
      }
    } else {
      const std::int64_t racks = dice.between(1, 4), nodes = dice.between(1, 4);
      const std::int64_t first = dice.between(7, 10);
      for (std::int64_t rack = first; rack < first + racks; ++rack) {
        for (std::int64_t node = 1; node <= nodes; ++node) {
          names.push_back(prefix + std::to_string(rack) + "-n" + std::to_string(node) +
                          (kind == 4 ? "" : "0"));
        }
      }
    }
    if (long_numbers && dice.chance(10)) names.push_back("n123456789012345678901234");
  }
  return names;
}

TEST(HostList, ExpandUndoesCompress) {
  Dice dice(11);
  for (std::uint64_t i = 0; i < testing::seeds(3000); ++i) {
    const Names names = random_names(dice, true);
    const std::string list = compress_hosts(names);
    ASSERT_EQ(expand_hosts(list), names) << list;
    std::size_t plain = 0;
    for (const std::string& name : names) plain += name.size() + 1;
    ASSERT_LE(list.size(), plain + 4) << list;  // "r[1]n[1]" at worst
  }
}

/// `scontrol show` of lists needs a slurm.conf and no daemons.
class Scontrol {
 public:
  Scontrol()
      : path_(std::filesystem::temp_directory_path() /
              ("nestplan-slurm-" + std::to_string(::getpid()) + ".conf")) {
    std::ofstream(path_) << "ClusterName=x\nSlurmctldHost=localhost(127.0.0.1)\n"
                            "NodeName=n1 NodeAddr=127.0.0.1\nPartitionName=p Nodes=n1\n";
  }
  ~Scontrol() { std::filesystem::remove(path_); }
  Scontrol(const Scontrol&) = delete;
  Scontrol& operator=(const Scontrol&) = delete;

  bool works() const { return show("a") == Names{"a"}; }
  Names show(const std::string& list) const {
    const std::string command =
        "SLURM_CONF=" + path_.string() + " scontrol show hostnames '" + list + "' 2>/dev/null";
    Names names;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return names;
    for (char line[256]; std::fgets(line, sizeof line, pipe) != nullptr;) {
      std::string name = line;
      name.erase(name.find_last_not_of('\n') + 1);
      names.push_back(name);
    }
    pclose(pipe);
    return names;
  }

 private:
  std::filesystem::path path_;
};

TEST(HostList, SlurmReadsTheSame) {
  const Scontrol scontrol;
  if (!scontrol.works()) GTEST_SKIP() << "scontrol is not installed";
  for (const char* list : {"node[001-003,140]", "rack[1-2]-node[01-03]", "a,b,a", "n[8-011]",
                           "a[1-2][3-4]", "n[1,1]", ",a,,b", "n[1-2,05]"}) {
    EXPECT_EQ(expand_hosts(list), scontrol.show(list)) << list;
  }
  Dice dice(12);
  for (std::uint64_t i = 0; i < testing::seeds(40); ++i) {
    const Names names = random_names(dice, false);  // Slurm 22.05 wraps them at 64 bits
    const std::string list = compress_hosts(names);
    ASSERT_EQ(scontrol.show(list), names) << list;
  }
}

}  // namespace
}  // namespace nestplan::util
