#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

namespace fs = std::filesystem;

/// A plan's document but for its `search`.
std::string without_search(const std::string& text) {
  Json plan = Json::parse(text);
  plan.erase("search");
  return plan.dump();
}

class CheckpointTest : public Workspace {
 protected:
  /// A search of a second or two.
  Words long_search(const Words& more = {}) const {
    const fs::path inputs = fs::path(NESTPLAN_SOURCE_DIR) / "inputs";
    Words words{"plan",
                "--model",
                (inputs / "models" / "gpt-3-175b").string(),
                "--cluster",
                (inputs / "clusters" / "tpuv4-fat-tree-512.json").string(),
                "--per-stage-strategies",
                "--global-batch",
                "512",
                "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  std::string undisturbed() const {
    const Outcome outcome = run(long_search());
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return without_search(outcome.out);
  }

  Json inspected(const std::string& file) const {
    const Outcome outcome = run({"inspect", "--json", file});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }

  void wait_for(const std::string& file) const {
    for (int i = 0; i < 1000 && !fs::exists(file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ASSERT_TRUE(fs::exists(file));
  }

  /// Says one line and ends like that, and leaves the checkpoint as it is.
  void expect_refusal(const Words& arguments, int code, const std::string& says) const {
    const std::string before = fs::is_regular_file(path("c.h5")) ? read_file(path("c.h5")) : "";
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, code) << outcome.err;
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const std::string after = fs::is_regular_file(path("c.h5")) ? read_file(path("c.h5")) : "";
    EXPECT_EQ(after, before);
    EXPECT_FALSE(fs::exists(path("c.h5.tmp")));
  }
};

TEST_F(CheckpointTest, KeepsThePlanOfASearchThatIsDone) {
  const Words line = on_small({"plan"}, {"--json", "--checkpoint", path("c.h5")});
  const Outcome first = run(line);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_FALSE(fs::exists(path("c.h5.lock")));
  const Outcome again = run(line);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, first.out);
  const std::string text = run(on_small({"plan"}, {"--checkpoint", path("c.h5"), "-v"})).out;
  fs::remove(path("graph.json"));
  fs::remove(path("cluster.json"));
  EXPECT_EQ(run({"resume", path("c.h5"), "-v"}).out, text);
  const Outcome resumed = run_on(2, {"resume", path("c.h5"), "-o", path("plan.json")});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(read_file(path("plan.json")), first.out);
  const Json about = inspected(path("c.h5"));
  EXPECT_EQ(about["kind"], "checkpoint");
  EXPECT_EQ(about["state"], "done");
  EXPECT_EQ(about["generation"], "newest");
  EXPECT_EQ(about["plan"], Json::parse(first.out));
}

TEST_F(CheckpointTest, KeepsThatNothingFits) {
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "1 MB";
  write_json("cluster.json", cluster);
  const Words line = on_small({"plan"}, {"--checkpoint", path("c.h5")});
  const Outcome first = run(line);
  EXPECT_EQ(first.exit_code, 3) << first.err;
  const Outcome again = run(line);
  EXPECT_EQ(again.exit_code, 3) << again.err;
  EXPECT_EQ(again.out, first.out);
}

TEST_F(CheckpointTest, GoesOnAfterATimeLimit) {
  const std::string expected = undisturbed();
  const Outcome stopped = run(
      long_search({"--checkpoint", path("c.h5"), "--time-limit", "0.5", "-o", path("plan.json")}));
  EXPECT_EQ(stopped.exit_code, 4) << stopped.err;
  EXPECT_NE(stopped.err.find("stopped; go on with: nestplan resume " + path("c.h5")),
            std::string::npos)
      << stopped.err;
  EXPECT_EQ(Json::parse(read_file(path("plan.json")))["format"], "nestplan.plan/1");
  const Json about = inspected(path("c.h5"));
  EXPECT_EQ(about["state"], "in_progress");
  EXPECT_EQ(about["steps"], 2);
  EXPECT_GT(about["spent_s"], 0.4);
  EXPECT_EQ(about["options"]["global-batch"], Json({"512"}));
  const Json& count = about["configurations"];
  EXPECT_EQ(count["total"].get<int>(),
            count["done"].get<int>() + count["in_work"].get<int>() + count["waiting"].get<int>());

  const Outcome further = run({"resume", path("c.h5"), "--json", "--time-limit", "0.2"});
  EXPECT_EQ(further.exit_code, 4) << further.err;
  EXPECT_NE(further.err.find("going on with the search in"), std::string::npos) << further.err;
  EXPECT_GT(inspected(path("c.h5"))["spent_s"], about["spent_s"]);
  const Outcome end = run_on(3, {"resume", path("c.h5"), "--json", "--grid", "1x3x1"});
  EXPECT_EQ(end.exit_code, 0) << end.err;
  EXPECT_EQ(without_search(end.out), expected);
  const Json search = Json::parse(end.out)["search"];
  EXPECT_GT(search["seconds"], about["spent_s"]);
  const Json stopped_search = Json::parse(read_file(path("plan.json")))["search"];
  EXPECT_EQ(search["options"]["global-batch"], "512");
  EXPECT_EQ(search["options"], stopped_search["options"]);
}

TEST_F(CheckpointTest, GoesOnAfterSignals) {
  const std::string expected = undisturbed();
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const std::string file = path("c" + std::to_string(signal));
    const Words line = long_search({"--checkpoint", file, "--checkpoint-every", "0.1"});
    Process process(line, directory_);
    wait_for(file + ".1");  // the second save
    process.send(signal);
    const Outcome stopped = process.wait();
    EXPECT_EQ(stopped.exit_code, 4) << stopped.err;
    const Outcome end = run(line);
    EXPECT_EQ(end.exit_code, 0) << end.err;
    EXPECT_EQ(without_search(end.out), expected);
  }
}

TEST_F(CheckpointTest, RefusesAnotherSearch) {
  const std::string file = path("c.h5");
  ASSERT_EQ(run(on_small({"plan"}, {"--checkpoint", file})).exit_code, 0);
  const auto refuses = [&](const Words& more, const std::string& says) {
    Words words = on_small({"plan"}, {"--checkpoint", file});
    words.insert(words.end(), more.begin(), more.end());
    expect_refusal(words, 2, says);
  };
  refuses({"--zero", "1"}, "--zero: was 0,1,2,3, is 1");
  refuses({"--objective", "paper"}, "--objective: was not set, is paper");
  refuses({"--allow-uneven-batch"}, "--allow-uneven-batch: was not set, is true");
  expect_refusal({"plan", "--graph", path("graph.json"), "--cluster", path("cluster.json"),
                  "--global-batch", "32", "--checkpoint", file},
                 2, "--global-batch: was 16, is 32");
  expect_refusal(long_search({"--checkpoint", file}), 2, "it is for a --graph, not for a --model");
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "2 GB";
  expect_refusal({"plan", "--graph", path("graph.json"), "--cluster",
                  write_json("other.json", cluster), "--global-batch", "16", "--checkpoint", file},
                 2, "--cluster: was " + path("cluster.json") + ", is " + path("other.json"));
  write_json("cluster.json", cluster);
  refuses({}, "--cluster: " + path("cluster.json") + " has changed");
  // what the answer does not depend on may differ
  write_json("cluster.json", small_cluster());
  fs::rename(path("graph.json"), path("moved.json"));
  EXPECT_EQ(run({"plan", "--graph", path("moved.json"), "--cluster", path("cluster.json"),
                 "--global-batch", "16", "--checkpoint", file, "-q", "--time-limit", "9"})
                .exit_code,
            0);
}

TEST_F(CheckpointTest, RefusesWhatIsNoCheckpoint) {
  const Words line = on_small({"plan"}, {"--checkpoint", path("c.h5")});
  write("c.h5", "{\"format\": \"nestplan.plan/1\"}");
  expect_refusal(line, 2, "c.h5: ");
  expect_refusal({"resume", path("c.h5")}, 2, "c.h5: ");
  fs::remove(path("c.h5"));
  expect_refusal({"resume", path("c.h5")}, 2, "c.h5: ");
  write("c.h5", "");
  expect_refusal({"resume", path("c.h5")}, 2, "is empty");
  EXPECT_EQ(run(line).exit_code, 0) << "an empty file is a reserved name";
}

TEST_F(CheckpointTest, TakesThePreviousGenerationOfADamagedFile) {
  const std::string file = path("c.h5");
  const Words line = on_small({"plan"}, {"--json", "--checkpoint", file});
  const Outcome first = run(line);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  fs::resize_file(file, fs::file_size(file) / 2);
  const Outcome resumed = run({"resume", file, "--json"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("warning: "), std::string::npos) << resumed.err;
  EXPECT_EQ(resumed.out, first.out);
  EXPECT_EQ(inspected(file)["generation"], "previous");
  fs::remove(file);
  EXPECT_EQ(run(line).out, first.out);
  EXPECT_EQ(inspected(file)["generation"], "previous");
  // both damaged
  std::string bytes = read_file(file + ".1");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 64);
  write("c.h5.1", bytes.substr(0, bytes.size() - 64));
  fs::copy_file(file + ".1", file);
  expect_refusal({"resume", file}, 2, "c.h5");
  expect_refusal(line, 2, "c.h5");
}

TEST_F(CheckpointTest, RefusesPlacesThatCannotHoldIt) {
  expect_refusal(on_small({"plan"}, {"--checkpoint", path("no/c.h5")}), 5, "no/c.h5");
  expect_refusal(on_small({"plan"}, {"--checkpoint", "/proc/c.h5"}), 5, "/proc/c.h5");
  expect_refusal(on_small({"plan"}, {"--checkpoint", directory_.string()}), 5, directory_.string());
  expect_refusal(on_small({"plan"}, {"--checkpoint", path("p.json"), "-o", path("./p.json")}), 2,
                 "is the file of the checkpoint");
  expect_refusal(on_small({"plan"}, {"--checkpoint", path("p.json"), "-o", path("p.json.1")}), 2,
                 "is the file of the checkpoint before the last");
  expect_refusal(on_small({"plan"}, {"--checkpoint-every", "3"}), 2, "--checkpoint is needed");
  expect_refusal(on_small({"plan"}, {"--checkpoint", path("c"), "--checkpoint-every", "0"}), 2,
                 "--checkpoint-every");
  expect_refusal({"resume"}, 2, "one checkpoint");
  expect_refusal({"resume", path("c.h5"), "--zero", "1"}, 2, "--zero");
}

TEST_F(CheckpointTest, HasOneWriter) {
  const std::string file = path("c.h5");
  const Words line = long_search({"--checkpoint", file, "--checkpoint-every", "0.1"});
  const std::string elsewhere = path("elsewhere");
  fs::create_directory(elsewhere);
  Process process(line, elsewhere);
  wait_for(file);
  for (const Words& words : {line, Words{"resume", file}}) {
    const Outcome second = run(words);
    EXPECT_EQ(second.exit_code, 5) << second.err;
    EXPECT_TRUE(is_one_line(second.err)) << second.err;
    EXPECT_NE(second.err.find("in use by process"), std::string::npos) << second.err;
  }
  EXPECT_EQ(inspected(file)["kind"], "checkpoint") << "reading is free";
  const Outcome first = process.wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
}

TEST_F(CheckpointTest, EndsWhenItsDirectoryVanishes) {
  for (const int ranks : {0, 2}) {
    const std::string place = path("place");
    fs::create_directory(place);
    Process process(
        long_search({"--checkpoint", place + "/c.h5", "--checkpoint-every", "0.2", "-q"}),
        directory_, "", ranks);
    wait_for(place + "/c.h5");
    fs::rename(place, path("moved"));
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.exit_code, 5) << outcome.err;
    EXPECT_EQ(outcome.err.find("nestplan: "), 0U) << outcome.err;
    EXPECT_EQ(outcome.err.find("nestplan: ", 1), std::string::npos) << outcome.err;
    // nothing is lost
    EXPECT_EQ(run({"resume", path("moved/c.h5"), "-q", "--json"}).exit_code, 0);
    fs::remove_all(path("moved"));
  }
}

}  // namespace
}  // namespace nestplan::test
