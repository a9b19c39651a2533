#include "cli/batch_result.hpp"

#include <gtest/gtest.h>

namespace nestplan::cli {
namespace {

JobResult planned() {
  JobResult result;
  result.name = "a";
  result.status = "optimal";
  result.code = ExitCode::kDone;
  result.plan = "d/a.plan.json";
  result.iteration_time_s = 0.1;
  result.samples_per_s = 1.0 / 3;
  result.tokens_per_s_per_device = 8550.4;
  result.dp = 4;
  result.pp = 2;
  result.tp = {1, 8};
  result.search_s = 0.25;
  return result;
}

JobResult ended(ExitCode code) { return failed_job("x", code, "so it is"); }

TEST(BatchResult, GoesThroughJsonUnchanged) {
  for (const JobResult& result : {planned(), ended(ExitCode::kBadInput), JobResult{}}) {
    const auto json = to_json(result);
    EXPECT_EQ(to_json(result_from_json(json)), json);
  }
  EXPECT_EQ(to_json(ended(ExitCode::kBadInput))["iteration_time_s"], nullptr);
}

TEST(BatchResult, IsToldInALine) {
  EXPECT_EQ(result_text(planned()),
            "optimal, 100.0 ms, 8,550 tokens/s per device, dp 4 pp 2 tp 1,8, in 250 ms");
  EXPECT_EQ(result_text(ended(ExitCode::kBadInput)), "failed: so it is");
  JobResult reused = planned();
  reused.reused = true;
  EXPECT_TRUE(result_text(reused).ends_with("(finished before, not repeated)"));
}

TEST(BatchSummary, CsvQuotesWhatNeedsIt) {
  JobResult result = planned();
  result.message = "a \"b\", c";
  EXPECT_EQ(summary_csv({result}),
            "name,status,exit_code,iteration_time_s,samples_per_s,tokens_per_s_per_device,dp,pp,tp,"
            "search_s,reused,plan,message\r\n"
            "a,optimal,0,0.1,0.3333333333333333,8550.4,4,2,\"1,8\",0.25,false,d/a.plan.json,"
            "\"a \"\"b\"\", c\"\r\n");
}

TEST(BatchSummary, TextIsATableWithCounts) {
  JobResult reused = planned();
  reused.reused = true;
  const std::string text = summary_text({planned(), reused, ended(ExitCode::kBadInput)}, false);
  EXPECT_TRUE(text.ends_with("3 jobs: 2 optimal, 1 failed; 1 finished before and not repeated\n"))
      << text;
}

TEST(BatchSummary, LongReasonsAreCutUnlessAskedFor) {
  JobResult result = ended(ExitCode::kBadInput);
  result.message = std::string(500, 'y');
  EXPECT_EQ(summary_text({result}, false).find(result.message), std::string::npos);
  EXPECT_NE(summary_text({result}, true).find(result.message), std::string::npos);
}

TEST(BatchExitCode, IsThatOfTheMostSeriousJob) {
  EXPECT_EQ(batch_exit_code({}, false), ExitCode::kDone);
  EXPECT_EQ(batch_exit_code({planned()}, false), ExitCode::kDone);
  const std::vector<ExitCode> rising{ExitCode::kDone,         ExitCode::kInfeasible,
                                     ExitCode::kStopped,      ExitCode::kBadInput,
                                     ExitCode::kOutOfMemory,  ExitCode::kSystemFailure,
                                     ExitCode::kInternalError};
  for (std::size_t i = 0; i < rising.size(); ++i) {
    std::vector<JobResult> results;
    for (std::size_t j = 0; j <= i; ++j) results.push_back(ended(rising[j]));
    EXPECT_EQ(batch_exit_code(results, false), rising[i]);
    EXPECT_EQ(batch_exit_code(results, true), ExitCode::kStopped);
  }
}

}  // namespace
}  // namespace nestplan::cli
