#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <set>
#include <sstream>
#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

/// A plan of two pods of two stages with tp 2, on the workspace's two nodes of four.
class ExportTest : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    const Outcome plan = run(on_small(
        {"plan"}, {"--tp", "2", "--pp", "2", "--dp", "2", "--dp-inner", "1", "-q", "-o", plan_()}));
    ASSERT_EQ(plan.exit_code, 0) << plan.err;
  }

  std::string plan_() const { return path("plan.json"); }

  Outcome export_to(const std::string& format, const Words& more = {}) const {
    Words words{"export", plan_(), "--cluster", path("cluster.json"), "--to", format};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  std::string exported(const std::string& format, const Words& more = {}) const {
    const Outcome outcome = export_to(format, more);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }

  Json plan_json() const { return Json::parse(read_file(plan_())); }

  /// Runs a program of the machine; its output goes to `out`.
  int shell(const std::string& command, std::string& out) const {
    const std::string file = path("shell.out");
    const int status = std::system(
        ("cd '" + directory_.string() + "' && { " + command + "; } >'" + file + "' 2>&1 </dev/null")
            .c_str());
    out = read_file(file);
    return status;
  }

  bool has_program(const std::string& name) const {
    std::string out;
    return shell("command -v " + name, out) == 0;
  }
};

const Words kNames{"--hosts", "n[1-2]"};

TEST_F(ExportTest, Placement) {
  const Json placement = Json::parse(exported("placement"));
  EXPECT_EQ(placement["format"], "nestplan.placement/1");
  EXPECT_EQ(placement["cluster"], "two-nodes");
  EXPECT_EQ(placement["rank_order"], "tp-cp-ep-dp-pp");
  ASSERT_EQ(placement["ranks"].size(), 8U);
  std::set<int> devices;
  for (const Json& rank : placement["ranks"]) devices.insert(rank["device"].get<int>());
  EXPECT_EQ(devices.size(), 8U);
  const Json& third = placement["ranks"][2];  // the first of the second copy of the first stage
  EXPECT_EQ(third["device"], 4);
  EXPECT_EQ(third["host"], "host1");
  EXPECT_EQ(third["pod"], 1);
  EXPECT_EQ(third["dp"], 1);
  EXPECT_EQ(third["stage"], 0);
  EXPECT_TRUE(placement["idle"].empty());
  EXPECT_TRUE(placement["segment_nodes"].is_null());
  EXPECT_FALSE(placement.contains("groups"));
}

TEST_F(ExportTest, Groups) {
  const Json groups = Json::parse(exported("placement", {"--groups"}))["groups"];
  EXPECT_EQ(groups["tp"], Json({{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups["dp"], Json({{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups["pp"], Json({{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups["ep"], Json::array());
  EXPECT_EQ(export_to("csv", {"--groups"}).exit_code, 2);
}

TEST_F(ExportTest, SpreadSaysWhatStraddles) {
  const Json spread = Json::parse(exported("placement"))["spread"];
  ASSERT_EQ(spread.size(), 3U);
  EXPECT_EQ(spread[0]["kind"], "tp");
  EXPECT_EQ(spread[0]["worst_domain"], "node");
  EXPECT_EQ(spread[1]["kind"], "dp");
  EXPECT_EQ(spread[1]["worst_domain"], "rack");
  EXPECT_EQ(spread[2]["kind"], "pp");
  EXPECT_EQ(spread[2]["domains"], Json({{{"domain", "node"}, {"groups", 4}}}));
}

TEST_F(ExportTest, RankOrder) {
  const std::string natural =
      exported("hostfile", {"--hosts", "n[1-2]", "--rank-order", "tp-cp-ep-pp-dp"});
  EXPECT_EQ(natural, "n1 slots=4\nn2 slots=4\n");
  EXPECT_EQ(export_to("csv", {"--rank-order", "tp-cp-ep-dp"}).exit_code, 2);
}

TEST_F(ExportTest, LaunchFiles) {
  EXPECT_EQ(exported("slurm-hosts", kNames), "n1\nn1\nn2\nn2\nn1\nn1\nn2\nn2\n");
  EXPECT_EQ(exported("rankfile", kNames).substr(0, 42),
            "rank 0=n1 slot=0\nrank 1=n1 slot=1\nrank 2=n");
  EXPECT_EQ(exported("csv", kNames).substr(0, 45), "rank,device,place,host,local,pod,stage,dp,cp,");
  const std::string file = path("hosts");
  EXPECT_EQ(exported("slurm-hosts", {"--hosts", "n[1-2]", "-o", file}), "");
  EXPECT_EQ(read_file(file), exported("slurm-hosts", kNames));
}

TEST_F(ExportTest, RefusesWhatItCannotWrite) {
  const auto refused = [&](const Words& words, const std::string& what) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_NE(outcome.err.find(what), std::string::npos) << outcome.err;
  };
  const std::string cluster = path("cluster.json");
  refused({"export", plan_()}, "--cluster");
  refused({"export", "--cluster", cluster}, "one plan file");
  refused({"export", plan_(), "--cluster", cluster, "--to", "rankfiel"}, "\"rankfile\"");
  refused({"export", plan_(), "--cluster", cluster, "--to", "hostfile"}, "--hosts");
  refused({"export", plan_(), "--cluster", cluster, "--hosts", "n[1-3]"}, "2 hosts");
  refused({"export", plan_(), "--cluster", cluster, "--hosts", "n[1-"}, "--hosts");
  refused({"export", path("graph.json"), "--cluster", cluster}, "nestplan.plan/1");
  Json larger = small_cluster();
  larger["network"]["levels"][1]["fanout"] = 3;
  refused({"export", plan_(), "--cluster", write_json("larger.json", larger)}, "8 devices");
}

TEST_F(ExportTest, RefusesPlansThatLeaveSomethingOpen) {
  Json plan = plan_json();
  plan["stages"][1].erase("position");
  write_json("plan.json", plan);
  const Outcome open = export_to("csv");
  EXPECT_EQ(open.exit_code, 2);
  EXPECT_NE(open.err.find("stages[1]: \"position\" is missing"), std::string::npos) << open.err;
  plan["stages"][1]["position"] = 1;
  write_json("plan.json", plan);
  const Outcome overlapping = export_to("csv");
  EXPECT_EQ(overlapping.exit_code, 2);
  EXPECT_NE(overlapping.err.find("stages[1].position: is 1"), std::string::npos) << overlapping.err;
}

TEST_F(ExportTest, InfeasiblePlansAreNotCarriedOut) {
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "1 MB";
  write_json("cluster.json", cluster);
  ASSERT_EQ(run(on_small({"plan"}, {"-q", "-o", plan_()})).exit_code, 3);
  const Outcome outcome = export_to("slurm");
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("infeasible"), std::string::npos) << outcome.err;
}

TEST_F(ExportTest, PlansSayHowTheyLie) {
  const Json placement = plan_json()["placement"];
  EXPECT_EQ(placement["hosts"], 2);
  EXPECT_EQ(placement["groups"][0]["domains"], Json({{"node", 4}}));
  const std::string text =
      run(on_small({"plan"}, {"--tp", "2", "--pp", "2", "--dp", "2", "--dp-inner", "1"})).out;
  EXPECT_NE(text.find("tp in node, dp across rack, pp in node"), std::string::npos) << text;
}

TEST_F(ExportTest, SlurmScriptIsBash) {
  write("job.sh", exported("slurm"));
  std::string out;
  EXPECT_EQ(shell("bash -n job.sh", out), 0) << out;
}

/// The script with stand-ins for Slurm's programs, one task after the other.
TEST_F(ExportTest, SlurmScriptLeadsEveryRankToItsDevice) {
  const std::string bin = path("bin");
  std::filesystem::create_directory(bin);
  write("bin/srun",
        "#!/usr/bin/env bash\n"
        "while [[ $1 == --* ]]; do shift; done\n"
        "declare -A seen\n"
        "rank=0\n"
        "while read -r node; do\n"
        "  SLURM_PROCID=$rank SLURM_LOCALID=${seen[$node]:-0} SLURMD_NODENAME=$node \"$@\"\n"
        "  seen[$node]=$((${seen[$node]:-0} + 1)) rank=$((rank + 1))\n"
        "done <\"$SLURM_HOSTFILE\"\n");
  write("bin/scontrol", "#!/usr/bin/env bash\nprintf 'n1\\nn2\\n'\n");
  for (const char* name : {"bin/srun", "bin/scontrol"}) {
    ASSERT_EQ(::chmod(path(name).c_str(), 0755), 0);
  }
  // copies of one device each, so that a node's ranks are not in the order of its devices
  const Outcome plan = run(on_small(
      {"plan"}, {"--tp", "1", "--pp", "2", "--dp", "4", "--dp-inner", "1", "-q", "-o", plan_()}));
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  for (const Words& names : {Words{}, kNames}) {
    const Json ranks = Json::parse(exported("placement", kNames))["ranks"];
    std::string expected;
    for (const Json& rank : ranks) {
      expected += rank["rank"].dump() + " " + rank["host"].get<std::string>() + " " +
                  rank["local"].dump() + " 8 n1\n";
    }
    write("job.sh", exported("slurm", names));
    std::string out;
    const int status = shell(
        "PATH=" + bin +
            ":$PATH SLURM_JOB_NODELIST='n[1-2]' SLURM_NTASKS=8 bash job.sh bash -c "
            "'IFS=, read -ra devices <<<\"$CUDA_VISIBLE_DEVICES\"; echo $RANK $SLURMD_NODENAME "
            "${devices[$LOCAL_RANK]} $WORLD_SIZE $MASTER_ADDR'",
        out);
    EXPECT_EQ(status, 0) << out;
    EXPECT_EQ(out, expected);
  }
}

/// Open MPI starts as many ranks as the files say, on a cluster that is this machine.
TEST_F(ExportTest, FilesAreTakenByOpenMpi) {
  if (!has_program("mpirun")) GTEST_SKIP() << "no mpirun";
  std::string host;
  ASSERT_EQ(shell("hostname", host), 0);
  host.erase(host.find_last_not_of('\n') + 1);
  Json cluster = small_cluster();
  cluster["network"]["levels"] = Json::array({cluster["network"]["levels"][0]});
  cluster["network"]["levels"][0]["fanout"] = 2;
  write_json("cluster.json", cluster);
  ASSERT_EQ(run(on_small({"plan"}, {"--dp", "2", "-q", "-o", plan_()})).exit_code, 0);
  const std::string environment =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader "
      "OMPI_MCA_oob_tcp_if_include=lo ";
  for (const std::string format : {"rankfile", "hostfile"}) {
    write(format, exported(format, {"--hosts", host}));
    std::string out;
    const int status = shell(environment + MPIEXEC + " --" + format + " " + format +
                                 " -n 2 bash -c "
                                 "'echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'",
                             out);
    EXPECT_EQ(status, 0) << out;
    for (const char* line : {"rank 0 of 2", "rank 1 of 2"}) {
      EXPECT_NE(out.find(line), std::string::npos) << out;
    }
  }
}

}  // namespace
}  // namespace nestplan::test
