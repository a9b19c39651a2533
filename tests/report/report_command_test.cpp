#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

constexpr int kSkipped = 77;

int exit_code_of(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool is_there(const std::string& program) {
  return exit_code_of("command -v " + program + " >/dev/null 2>&1") == 0;
}

class ReportTest : public Workspace {
 protected:
  void plan(const Words& more) const {
    Words words{"-q", "-o", path("plan.json")};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(on_small({"plan"}, words));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  /// The page of `plan.json`, as a file.
  std::string page(const std::string& name, const Words& more = {}) const {
    Words words{"-q", "-o", path(name)};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(on_small({"report", path("plan.json")}, words));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return read_file(path(name));
  }

  /// A page of a shipped model and cluster, as a file.
  void page_of(const std::string& name, const std::string& model, const std::string& cluster,
               const Words& more) const {
    const std::string inputs = NESTPLAN_SOURCE_DIR "/inputs/";
    Words flags{"--model", inputs + "models/" + model, "--cluster",
                inputs + "clusters/" + cluster + ".json"};
    flags.insert(flags.end(), more.begin(), more.end());
    Words words{"plan", "-q", "--top", "3", "-o", path(name + ".json")};
    words.insert(words.end(), flags.begin(), flags.end());
    ASSERT_EQ(run(words).exit_code, 0);
    words = {"report", path(name + ".json"), "-q", "-o", path(name + ".html")};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome outcome = run(words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  /// A batch with a job that fits, one that does not and one that fails, in `plans`.
  void batch() const {
    const Json job{{"graph", path("graph.json")}, {"cluster", path("cluster.json")}};
    Json jobs = Json::array();
    for (const auto& [job_name, batch] : {std::pair{"even", 16}, std::pair{"odd", 3}}) {
      jobs.push_back(job);
      jobs.back()["name"] = job_name;
      jobs.back()["options"] = {{"global-batch", batch}, {"dp", "2"}};
    }
    jobs.push_back({{"name", "lost"},
                    {"graph", path("nothing.json")},
                    {"cluster", path("cluster.json")},
                    {"options", {{"global-batch", 16}}}});
    write_json("batch.json", {{"format", "nestplan.batch/1"}, {"jobs", jobs}});
    const Outcome outcome =
        run({"batch", path("batch.json"), "-q", "--json", "-o", path("plans")}, path("sums.json"));
    ASSERT_EQ(outcome.exit_code, 2) << outcome.err;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ReportTest, TellsWhatThePlanIs) {
  plan({"--pp", "2"});
  const std::string html = page("page.html");
  for (const char* section :
       {"summary", "cluster", "schedule", "memory", "time", "network", "alternatives"}) {
    EXPECT_TRUE(has(html, "<section id=\"" + std::string(section) + "\"")) << section;
    EXPECT_TRUE(has(html, "href=\"#" + std::string(section) + "\"")) << section;
  }
  EXPECT_TRUE(has(html, "proven: among plans with pp 2, none is faster in this model"));
  EXPECT_TRUE(has(html, "nestplan report " + path("plan.json")));
  for (const char* loads : {"<script", "<link", "<img", " src=", "@import", "url(http"}) {
    EXPECT_FALSE(has(html, loads)) << loads;
  }
}

TEST_F(ReportTest, KeepsThePlan) {
  plan({});
  const std::string before = read_file(path("plan.json"));
  const Outcome outcome = run(on_small({"report", path("plan.json")}, {"-o", path("plan.json")}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(has(outcome.err, "--output")) << outcome.err;
  EXPECT_EQ(read_file(path("plan.json")), before);
}

TEST_F(ReportTest, SameInputSameBytes) {
  plan({"--pp", "2"});
  const Words words = on_small({"report", path("plan.json")}, {});
  const std::string once = run(words).out;
  EXPECT_EQ(run(words).out, once);
  EXPECT_EQ(run_on(2, words).out, once);
  EXPECT_TRUE(has(once, "</html>"));
}

TEST_F(ReportTest, GivenPlansAreNotCalledProven) {
  plan({"--pp", "2"});
  Json file = Json::parse(read_file(path("plan.json")));
  file["search"].erase("options");
  write_json("plan.json", file);
  const std::string html = page("page.html");
  EXPECT_TRUE(has(html, "not known: its file records no search"));
  EXPECT_TRUE(has(html, "does not record the search that found it"));
  EXPECT_FALSE(has(html, "nestplan plan"));
  const Outcome evaluated = run(on_small({"evaluate", path("plan.json")}, {"--json"}));
  EXPECT_FALSE(Json::parse(evaluated.out)["search"].contains("options")) << "nothing was searched";
}

TEST_F(ReportTest, TheSearchIsRepeatedAndNotTheFlagsOfThePage) {
  plan({"--pp", "2", "--tp", "1", "--zero", "0,1,2,3", "--cut", "a|c", "--top", "2"});
  const std::string repeats = fmt::format(
      "nestplan plan --graph {} --cluster {} --global-batch 16 --tp 1 --pp 2 "
      "--cut &#39;a|c&#39; --top 2 -o {}",
      path("graph.json"), path("cluster.json"), path("plan.json"));
  const std::string html = page("page.html", {"--schedule", "1f1b"});
  EXPECT_TRUE(has(html, repeats)) << html;
  EXPECT_TRUE(has(html, "among plans with tp 1, pp 2, cut a|c, none is faster"));
  plan({});
  EXPECT_TRUE(has(page("page.html"), "of all plans that the search&#39;s defaults allow"));
  plan({"--overlap", "tensor=0.5"});
  EXPECT_TRUE(has(page("page.html"), "of all plans that the search&#39;s defaults allow"))
      << "what costs are with is no restriction";
}

TEST_F(ReportTest, WhatIsAboutOtherInputsIsLeftOut) {
  plan({"--pp", "2", "--top", "3"});
  const Json file = Json::parse(read_file(path("plan.json")));
  const auto left_out = [&](const Json& document, const std::string& why) {
    write_json("plan.json", document);
    const std::string html = page("page.html");
    EXPECT_TRUE(has(html, "not known: " + why)) << why;
    EXPECT_TRUE(has(html, "Left out, since they are about another plan: " + why)) << why;
    EXPECT_FALSE(has(html, "The best plans of different strategies")) << why;
    EXPECT_FALSE(has(html, "proven")) << why;
  };
  Json other = file;
  other["iteration_time_s"] = 2 * file["iteration_time_s"].get<double>();
  left_out(other, "the plan&#39;s file says ");
  other = file;
  other["batch"]["global_batch"] = 32;
  left_out(other, "the plan&#39;s file is for the global batch 32, this page for 16");
  other = file;
  other["model"] = "another";
  left_out(other, "the plan&#39;s file is for the model another, this page for small");
  other = file;
  other["cluster"] = "elsewhere";
  left_out(other, "the plan&#39;s file is for the cluster elsewhere, this page for ");
}

TEST_F(ReportTest, TellsHowManyBlocksUnevenLevelsJoin) {
  Json cluster = small_cluster();
  cluster["network"]["levels"][0]["fanout"] = {3, 5};
  write_json("cluster.json", cluster);
  plan({});
  EXPECT_TRUE(has(page("page.html"), ">3 to 5<"));
}

TEST_F(ReportTest, AlternativesAreShownWhenTheyAreThere) {
  plan({"--pp", "2"});
  EXPECT_TRUE(has(page("page.html"), "does not tell of other plans"));
  plan({"--top", "3"});
  const std::string html = page("page.html");
  EXPECT_TRUE(has(html, "The best plans of different strategies"));
  EXPECT_FALSE(has(html, "does not tell of other plans"));
}

TEST_F(ReportTest, PlansThatDoNotFitAreShown) {
  plan({"--pp", "2"});
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "1 MB";
  write_json("cluster.json", cluster);
  const Outcome outcome =
      run(on_small({"report", path("plan.json")}, {"-q", "-o", path("page.html")}));
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  const std::string html = read_file(path("page.html"));
  EXPECT_TRUE(has(html, "The plan is infeasible"));
  EXPECT_TRUE(has(html, "Memory binds on stage"));
  EXPECT_FALSE(has(html, "<section id=\"schedule\""));
}

TEST_F(ReportTest, NamesAreNoMarkup) {
  Json graph = small_graph();
  graph["name"] = "</title><script>alert('x')</script>";
  graph["layers"][0]["id"] = "a\"<b>&";
  for (Json& edge : graph["edges"]) {
    if (edge["from"] == small_graph()["layers"][0]["id"]) edge["from"] = "a\"<b>&";
  }
  write_json("graph.json", graph);
  plan({});
  const std::string html = page("page.html");
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_TRUE(has(html, "&lt;script&gt;"));
  EXPECT_TRUE(has(html, "a&quot;&lt;b&gt;&amp;"));
}

TEST_F(ReportTest, BatchesHaveATableAndASectionForEveryJob) {
  batch();
  const Outcome directory = run({"report", path("plans")});
  ASSERT_EQ(directory.exit_code, 0) << directory.err;
  EXPECT_TRUE(has(directory.out, "href=\"#job-1\""));
  EXPECT_TRUE(has(directory.out, "<section id=\"job-2\""));
  EXPECT_TRUE(has(directory.out, "infeasible"));
  const Outcome summary = run({"report", path("sums.json")});
  ASSERT_EQ(summary.exit_code, 0) << summary.err;
  EXPECT_TRUE(has(summary.out, "<section id=\"job-3\"")) << "failed jobs have no plan";
  EXPECT_TRUE(has(summary.out, "nothing.json"));
}

TEST_F(ReportTest, SummariesFindTheirPlansFromAnywhere) {
  batch();
  Json summary = Json::parse(read_file(path("sums.json")));
  for (Json& job : summary["jobs"]) {
    if (!job["plan"].is_null())
      job["plan"] = "plans/" + job["name"].get<std::string>() + ".plan.json";
  }
  write_json("sums.json", summary);
  const Outcome found = run({"report", path("sums.json")});
  EXPECT_EQ(found.err, "");
  EXPECT_TRUE(has(found.out, "Stages; times are of one micro-batch"));
  std::filesystem::remove(path("plans/even.plan.json"));
  const Outcome missed = run({"report", path("sums.json")});
  EXPECT_EQ(missed.exit_code, 0);
  EXPECT_TRUE(is_one_line(missed.err));
  for (const std::string& text : {missed.err, missed.out}) {
    EXPECT_TRUE(has(text, "plans/even.plan.json")) << text;
    EXPECT_TRUE(has(text, "is not there")) << text;
  }
}

TEST_F(ReportTest, WrongInputsAreRefused) {
  batch();
  const auto refused = [&](const Words& words, const std::string& says) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_TRUE(has(outcome.err, says)) << outcome.err;
  };
  refused({"report", path("plans"), "--cluster", path("cluster.json")}, "--cluster: is for a plan");
  refused({"report", path("plans"), "--tp", "2"}, "--tp: is for a plan");
  refused({"report", path("sums.json"), "--no-sequence-parallel"},
          "--no-sequence-parallel: is for");
  refused({"report", path("batch.json")}, "is the job list of a batch");
  refused({"report", path("plans"), "-o", path("plans/even.plan.json")},
          "is the file of the job even");
  write_json("none.json", {{"jobs", Json::array()}});
  refused({"report", path("none.json")}, "jobs: is empty");
  refused(on_small({"report", path("plans/even.plan.json")}, {"-o", path("graph.json")}),
          "is the file of --graph");
  std::filesystem::create_directory(path("empty"));
  refused({"report", path("empty")}, "holds no NAME.plan.json");
  refused({"report"}, "one plan or batch");
  refused({"report", path("nothing")}, "nothing");
  write("broken.json", R"({"jobs": [{"name": 3}]})");
  refused({"report", path("broken.json")}, "jobs[0]");
  refused({"report", path("batch.json"), "--json"}, "--json");
}

/// Pages of all kinds, each well-formed as XML and without faults in a browser.
class PagesTest : public ReportTest {
 protected:
  void make_pages() const {
    plan({"--pp", "2", "--top", "2"});
    page("small.html");
    page_of("phone", "llama-3.1-8b", "single-node-8xh100", {"--global-batch", "64"});
    page_of("large", "llama-3.1-405b", "h100-16384", {"--global-batch", "2048", "--seq", "8192"});
    page_of("torus", "mixtral-8x7b", "tpu-v4-4096", {"--global-batch", "4096"});
    batch();
    ASSERT_EQ(run({"report", path("sums.json"), "-o", path("batch.html")}).exit_code, 0);
  }
  static constexpr const char* kPages[] = {"small", "phone", "large", "torus", "batch"};
};

TEST_F(PagesTest, AreWellFormedAndSmall) {
  make_pages();
  for (const char* name : kPages) {
    const std::string file = path(std::string(name) + ".html");
    EXPECT_LT(std::filesystem::file_size(file), 1'000'000U) << name;
    if (is_there("xmllint")) {
      EXPECT_EQ(exit_code_of("xmllint --noout --nonet '" + file + "'"), 0) << name;
    }
  }
  if (!is_there("xmllint")) GTEST_SKIP() << "there is no xmllint";
}

TEST_F(PagesTest, HaveNoFaultsInABrowser) {
  if (!is_there("python3")) GTEST_SKIP() << "there is no python3";
  make_pages();
  std::string command = "python3 " NESTPLAN_SOURCE_DIR "/tests/report/browser.py check";
  for (const char* name : kPages) command += " '" + path(std::string(name) + ".html") + "'";
  const int code = exit_code_of(command + " >" + path("faults"));
  if (code == kSkipped) GTEST_SKIP() << read_file(path("faults"));
  EXPECT_EQ(code, 0) << read_file(path("faults"));
}

}  // namespace
}  // namespace nestplan::test
