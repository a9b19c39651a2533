#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

struct Outcome {
  int code = -1;
  std::string out;
};

/// Runs a shell command with the environment of a test machine; stderr goes into the text too.
Outcome run(const std::string& command) {
  const std::string full =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none "
      "OMPI_MCA_btl=self,vader OMPI_MCA_mpi_yield_when_idle=1 timeout 60 " +
      command + " 2>&1";
  Outcome outcome;
  FILE* pipe = popen(full.c_str(), "r");
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) outcome.out += buffer.data();
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

std::string mpirun(int ranks, const std::string& arguments) {
  return std::string(MPIEXEC) + " -n " + std::to_string(ranks) + " " + arguments;
}

const std::string kPlan = std::string(NESTPLAN_BINARY) +
                          " plan --cluster " NESTPLAN_SOURCE_DIR
                          "/inputs/clusters/h100-spine-leaf-1024.json --global-batch 512 ";
const std::string kModel = "--model " NESTPLAN_SOURCE_DIR "/inputs/models/llama-3.1-8b ";

/// Fit for double quotes in a shell.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '"' ? std::string("\\\"") : std::string(1, c);
  return out;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (std::size_t i = text.find(what); i != std::string::npos; i = text.find(what, i + 1)) ++found;
  return found;
}

TEST(Ranks, PrintOnce) {
  const Outcome outcome = run(mpirun(3, kPlan + kModel));
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(count(outcome.out, "iteration"), 1U) << outcome.out;
}

TEST(Ranks, BadUsageIsSaidOnce) {
  const Outcome outcome = run(mpirun(3, kPlan + kModel + "--grid 2x2x1"));
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(count(outcome.out, "nestplan: --grid: 2x2x1 is 4 ranks, but there are 3"), 1U)
      << outcome.out;
}

TEST(Ranks, AMissingFileIsSaidOnceAndEndsAll) {
  const Outcome outcome = run(mpirun(3, kPlan + "--model /nowhere/config.json"));
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(count(outcome.out, "/nowhere/config.json"), 1U) << outcome.out;
}

TEST(Ranks, OtherArgumentsOnOneRankEndAll) {
  const std::string good = kPlan + kModel;
  const Outcome outcome = run(mpirun(2, good) + " : -n 1 " + good + "--tp 2");
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(count(outcome.out, "rank 2 was started with other arguments than rank 0"), 1U)
      << outcome.out;
}

TEST(Ranks, OnlyTheFirstReadsFiles) {
  const std::string cluster = NESTPLAN_SOURCE_DIR "/inputs/clusters/h100-spine-leaf-1024.json";
  const std::string plan = " plan --cluster /dev/stdin --global-batch 512 ";
  const Outcome outcome = run(mpirun(3, NESTPLAN_BINARY + plan + kModel) + " < " + cluster);
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(count(outcome.out, "iteration"), 1U) << outcome.out;
}

TEST(Ranks, AConfigurationMayBeAPipe) {
  const std::string plan = " plan --config /dev/stdin ";
  const std::string text = "printf '[plan]\\nglobal-batch = 512\\n' | ";
  const std::string cluster =
      "--cluster " NESTPLAN_SOURCE_DIR "/inputs/clusters/h100-spine-leaf-1024.json ";
  const Outcome outcome =
      run("sh -c \"" + text + mpirun(2, NESTPLAN_BINARY + plan) + kModel + cluster + "\"");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
}

TEST(Ranks, AFailureOfAllIsSaidByTheFirst) {
  std::string graph =
      R"({"format": "nestplan.graph/1", "name": "wide", "strategies": [{"id": "s", "tp": 1}], )"
      R"("edges": [], "layers": [)";
  for (int i = 0; i < 30; ++i) {
    graph += (i > 0 ? ", " : "") + (R"({"id": "l)" + std::to_string(i)) +
             R"(", "costs": {"s": {"forward_s": 1, "backward_s": 1, "parameters": 1, )"
             R"("activation_bytes": 1}}})";
  }
  const Outcome outcome = run("sh -c \"echo '" + escaped(graph + "]}") + "' | " +
                              mpirun(3, kPlan + "--graph /dev/stdin") + "\"");
  EXPECT_EQ(outcome.code, 6) << outcome.out;
  EXPECT_EQ(count(outcome.out, "nestplan: the graph"), 1U) << outcome.out;
  EXPECT_EQ(count(outcome.out, "downsets"), 1U) << outcome.out;
}

TEST(Ranks, InfeasibleIsTheSameCodeEverywhere) {
  const Outcome outcome = run(mpirun(2, kPlan + kModel + "--dp 1 --pp 1 --tp 1 --zero 0"));
  EXPECT_EQ(outcome.code, 3) << outcome.out;
}

TEST(Ranks, OneProcessWhereSeveralWereMeantIsRefused) {
  const Outcome refused = run("env SLURM_NTASKS=4 " + kPlan + kModel);
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_NE(refused.out.find("--single-process"), std::string::npos) << refused.out;
  EXPECT_EQ(run("env SLURM_NTASKS=4 " + kPlan + kModel + "--single-process").code, 0);
}

TEST(Ranks, ATimeLimitStopsAllOfThem) {
  const Outcome outcome = run(
      mpirun(3, kPlan + "--model " NESTPLAN_SOURCE_DIR
                        "/inputs/models/qwen2.5-omni-7b --per-stage-strategies --time-limit 1 -q"));
  EXPECT_EQ(outcome.code, 4) << outcome.out;
}

}  // namespace
