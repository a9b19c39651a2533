#include "nestplan/placement/launch_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"
#include "placement/random_placement.hpp"
#include "support/seeds.hpp"

namespace nestplan::placement {
namespace {

using ::nestplan::testing::cluster_of;
using ::nestplan::testing::Dice;
using ::nestplan::testing::random_cluster;
using ::nestplan::testing::random_outline;
using ::nestplan::testing::seeds;

using util::idx;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

model::Cluster two_nodes() {
  model::Cluster cluster = cluster_of({4, 2});
  cluster.hosts = {{"a", 4, {}}, {"b", 4, {}}};
  return cluster;
}

/// Two pods of two stages: the ranks of a node are those of both stages.
const model::PlanOutline kTwoByTwo{
    .dp_inner = 1, .dp_outer = 2, .stages = {{0, 2, 1, 1, 2}, {2, 2, 1, 1, 2}}};

/// Four pods of two stages of one device.
const model::PlanOutline kFourByTwo{
    .dp_inner = 1, .dp_outer = 4, .stages = {{0, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}};

TEST(LaunchFiles, Rankfile) {
  EXPECT_EQ(rankfile(place(kTwoByTwo, two_nodes())),
            "rank 0=a slot=0\nrank 1=a slot=1\nrank 2=b slot=0\nrank 3=b slot=1\n"
            "rank 4=a slot=2\nrank 5=a slot=3\nrank 6=b slot=2\nrank 7=b slot=3\n");
  model::Cluster unnamed = two_nodes();
  unnamed.hosts.clear();
  EXPECT_EQ(lines_of(rankfile(place(kTwoByTwo, unnamed)))[2], "rank 2=+n1 slot=0");
}

TEST(LaunchFiles, RankfileCountsUnnamedHostsInUse) {
  model::Cluster cluster = cluster_of({4, 3});
  cluster.unavailable = {{0, 4}};
  EXPECT_EQ(lines_of(rankfile(place(kTwoByTwo, cluster)))[0], "rank 0=+n0 slot=0");
}

TEST(LaunchFiles, Hostfile) {
  EXPECT_EQ(hostfile(place(kTwoByTwo, two_nodes())),
            "# one line for each rank: mpirun --map-by seq\na\na\nb\nb\na\na\nb\nb\n");
  EXPECT_EQ(hostfile(place(kTwoByTwo, two_nodes(), RankOrder::kDataLast)),
            "a slots=4\nb slots=4\n");
}

TEST(LaunchFiles, SlurmHosts) {
  EXPECT_EQ(slurm_hosts(place(kTwoByTwo, two_nodes())), "a\na\nb\nb\na\na\nb\nb\n");
}

TEST(LaunchFiles, NeedNames) {
  const Placement placement = place(kTwoByTwo, cluster_of({4, 2}));
  EXPECT_THROW(hostfile(placement), InvalidInput);
  EXPECT_THROW(slurm_hosts(placement), InvalidInput);
}

TEST(LaunchFiles, Csv) {
  const model::PlanOutline plan{.dp_inner = 1, .dp_outer = 1, .stages = {{0, 2, 3, 1, 2}}};
  const std::vector<std::string> lines = lines_of(csv(place(plan, two_nodes())));
  ASSERT_EQ(lines.size(), 9U);
  EXPECT_EQ(lines[0], "rank,device,place,host,local,pod,stage,dp,cp,tp,ep,etp");
  EXPECT_EQ(lines[6], "5,5,5,b,1,0,0,0,2,1,0,1");
  EXPECT_EQ(lines[7], ",6,6,b,2,,,,,,,");
}

TEST(LaunchFiles, DeviceOrderIsThatOfTheRanksOfAHost) {
  EXPECT_EQ(device_order(place(kFourByTwo, two_nodes()))[0],
            (std::vector<std::int64_t>{0, 2, 1, 3}));
  model::Cluster swapped = two_nodes();
  swapped.hosts[1].local = {3, 2, 1, 0};
  EXPECT_EQ(device_order(place(kFourByTwo, swapped))[1], (std::vector<std::int64_t>{3, 1, 2, 0}));
}

TEST(SlurmScript, AsksForTheNodesInUse) {
  model::Cluster cluster = cluster_of({4, 4});
  for (const char* name : {"n1", "n2", "n3", "n4"}) cluster.hosts.push_back({name, 4, {}});
  cluster.unavailable = {{4, 4}};
  const std::string script = slurm_script(place(kTwoByTwo, cluster));
  for (const char* line :
       {"#SBATCH --nodes=3\n", "#SBATCH --nodelist=n[1,3-4]\n", "#SBATCH --ntasks=8\n",
        "#SBATCH --ntasks-per-node=4\n", "nodes=(n1 n3 n4)\n", "--distribution=arbitrary"}) {
    EXPECT_NE(script.find(line), std::string::npos) << line << script;
  }
  EXPECT_EQ(script.find("--segment"), std::string::npos);
}

TEST(SlurmScript, SetsDevicesOnlyWhereTheyAreOutOfOrder) {
  const std::string natural = slurm_script(place(kTwoByTwo, two_nodes(), RankOrder::kDataLast));
  EXPECT_EQ(natural.find("CUDA_VISIBLE_DEVICES=$order"), std::string::npos);
  model::Cluster swapped = two_nodes();
  swapped.hosts[1].local = {3, 2, 1, 0};
  const std::string script = slurm_script(place(kFourByTwo, swapped));
  EXPECT_NE(script.find("DEVICE_ORDER=0,2,1,3\n"), std::string::npos) << script;
  EXPECT_NE(script.find("others=(\"${nodes[1]}=3,1,2,0\")\n"), std::string::npos) << script;
}

TEST(SlurmScript, HasTheSegmentOfExpertGroups) {
  model::Cluster cluster = cluster_of({4, 18, 4});
  for (std::int64_t rack = 0; rack < 4; ++rack) cluster.unavailable.push_back({rack * 72 + 64, 8});
  for (const std::int64_t ep : {32, 64}) {
    const model::PlanOutline plan{.dp_inner = 256, .dp_outer = 1, .stages = {{0, 1, 1, ep, 1}}};
    const std::string line = "#SBATCH --segment=" + std::to_string(ep / 4) + "\n";
    EXPECT_NE(slurm_script(place(plan, cluster)).find(line), std::string::npos) << line;
  }
}

/// What Open MPI and Slurm make of the files: ranks in the order of the lines, devices of a host in
/// the order of its ranks.
TEST(LaunchFiles, LeadEveryRankToItsDevice) {
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    model::Cluster cluster = random_cluster(dice);
    const model::PlanOutline plan = random_outline(dice, cluster, true);
    std::vector<std::string> names;
    for (std::size_t h = 0; h < cluster.host_sizes().size(); ++h) {
      names.push_back("h" + std::to_string(h));
    }
    const Placement placement = place(plan, cluster, RankOrder::kPipelineLast, names);
    const std::vector<std::string> hosts = lines_of(slurm_hosts(placement));
    ASSERT_EQ(hosts.size(), placement.seats.size());
    std::vector<std::size_t> seen(names.size(), 0);
    for (const Seat& seat : placement.seats) {
      EXPECT_EQ(hosts[idx(seat.rank)], names[idx(seat.host)]);
      const std::size_t local_rank = seen[idx(seat.host)]++;
      EXPECT_EQ(device_order(placement)[idx(seat.host)][local_rank], seat.local);
    }
    std::vector<std::string> expanded;
    for (const std::string& line : lines_of(hostfile(placement))) {
      if (line.front() == '#') continue;
      const std::size_t blank = line.find(" slots=");
      const std::int64_t count =
          blank == std::string::npos ? 1 : std::stoll(line.substr(blank + 7));
      expanded.insert(expanded.end(), idx(count), line.substr(0, blank));
    }
    EXPECT_EQ(expanded, hosts);
  }
}

}  // namespace
}  // namespace nestplan::placement
