/// A search that is hurt in every way and gone on with, on any number of ranks, comes to the plan
/// of one that was left alone. Usually a few runs; with NESTPLAN_SOAK=1 a hundred of every kind of
/// harm.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "campaigns/job.hpp"
#include "campaigns/launch.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::campaign {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::Dice;

constexpr std::chrono::seconds kLimit{240};
constexpr int kMostRanks = 8;
constexpr int kStopped = 4;

enum class Harm {
  kKill,          ///< all processes at once, at any time
  kKillOne,       ///< one rank
  kKillInSave,    ///< one rank while a save is under way
  kSignal,        ///< SIGUSR1 by way of the launcher, or SIGTERM to every rank
  kSignalTwice,   ///< SIGTERM to every rank, and once more during the save
  kSignalOneRank  ///< SIGTERM to one rank only, and another one sleeps meanwhile
};
constexpr Harm kHarms[] = {Harm::kKill,   Harm::kKillOne,     Harm::kKillInSave,
                           Harm::kSignal, Harm::kSignalTwice, Harm::kSignalOneRank};

const char* name_of(Harm harm) {
  switch (harm) {
    case Harm::kKill:
      return "all killed";
    case Harm::kKillOne:
      return "a rank killed";
    case Harm::kKillInSave:
      return "a rank killed in a save";
    case Harm::kSignal:
      return "signalled";
    case Harm::kSignalTwice:
      return "signalled again in the save";
    case Harm::kSignalOneRank:
      return "a rank signalled, another asleep";
  }
  return "";
}

/// A search of a few seconds.
struct Subject {
  std::string name;
  Words flags;
};

std::vector<Subject> subjects() {
  const fs::path inputs = fs::path(NESTPLAN_SOURCE_DIR) / "inputs";
  const auto model = [&](const char* name) { return (inputs / "models" / name).string(); };
  const auto cluster = [&](const char* name) { return (inputs / "clusters" / name).string(); };
  return {{"one large table after the other",
           {"--model",
            model("qwen2.5-omni-7b"),
            "--cluster",
            cluster("h100-spine-leaf-1024.json"),
            "--granularity",
            "block,vision=operator",
            "--per-stage-strategies",
            "--micro-batch",
            "1",
            "--global-batch",
            "512",
            "--seq",
            "4096",
            "--dp",
            "2",
            "--dp-inner",
            "1",
            "--tp",
            "2,4",
            "--objective",
            "paper",
            "--pp",
            "18"}},
          {"many small tables",
           {"--model", model("gpt-3-175b"), "--cluster", cluster("tpuv4-fat-tree-512.json"),
            "--per-stage-strategies", "--global-batch", "512"}}};
}

class Ordeal {
 public:
  Ordeal(const Subject& subject, std::string expected, const fs::path& directory,
         std::uint64_t seed)
      : subject_(subject),
        expected_(std::move(expected)),
        dice_(seed),
        checkpoint_(directory / fmt::format("{}.h5", seed)),
        plan_(directory / fmt::format("{}.json", seed)),
        log_(directory / fmt::format("{}.log", seed)) {}

  /// Hurts the search up to `most` times, then lets it come to its end.
  void undergo(Harm harm, int most) {
    const std::int64_t times = dice_.between(1, most);
    for (std::int64_t i = 0; i < times && !over_; ++i) hurt(harm);
    if (!over_) last_run();
    if (!HasFailure()) {
      for (const char* suffix : {"", ".1", ".tmp", ".lock"}) {
        fs::remove(checkpoint_.string() + suffix);
      }
    }
  }

  int hurt_in_saves() const { return hurt_in_saves_; }
  int early() const { return early_; }

 private:
  static bool HasFailure() { return ::testing::Test::HasFailure(); }

  Words line() {
    const bool there = fs::exists(checkpoint_) || fs::exists(checkpoint_.string() + ".1");
    Words words{"resume", checkpoint_.string()};
    if (!there || dice_.chance(50)) {
      words = {"plan", "--checkpoint", checkpoint_.string()};
      words.insert(words.end(), subject_.flags.begin(), subject_.flags.end());
    }
    words.insert(words.end(), {"--checkpoint-every", "0.3", "-q", "-o", plan_.string()});
    return words;
  }

  int any_ranks() { return static_cast<int>(dice_.between(0, kMostRanks)); }

  /// Waits until it is `seconds` old.
  void let_run(Job& job, double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end && !job.ended()) std::this_thread::sleep_for(milliseconds(2));
  }

  /// Waits for the next save to begin.
  bool await_save(Job& job) {
    const std::string temporary = checkpoint_.string() + ".tmp";
    while (!job.ended()) {
      if (fs::exists(temporary)) return true;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return false;
  }

  void to_all(const Job& job, int signal) {
    for (const pid_t rank : job.ranks()) ::kill(rank, signal);
  }

  void hurt(Harm harm) {
    const int count = any_ranks();
    Job job(line(), count, log_);
    // a start takes its time where ranks are many
    let_run(job, 0.001 * static_cast<double>(dice_.between(50, 1200 + 150 * count)));
    pid_t asleep = 0;
    if (harm == Harm::kKillInSave && await_save(job)) {
      std::this_thread::sleep_for(std::chrono::microseconds(dice_.between(0, 8000)));
      ++hurt_in_saves_;
    }
    const std::vector<pid_t> ranks = job.ranks();
    if (ranks.empty() || job.ended()) {
      ++early_;
    } else {
      const pid_t one = dice_.pick(ranks);
      switch (harm) {
        case Harm::kKill:
          for (const pid_t rank : ranks) ::kill(rank, SIGKILL);
          job.send(SIGKILL);
          break;
        case Harm::kKillOne:
        case Harm::kKillInSave:
          ::kill(one, SIGKILL);
          break;
        case Harm::kSignal:
          if (dice_.chance(50)) {
            job.send(SIGUSR1);
          } else {
            to_all(job, SIGTERM);
          }
          break;
        case Harm::kSignalTwice:
          to_all(job, SIGTERM);
          if (await_save(job)) {
            ++hurt_in_saves_;
            to_all(job, SIGTERM);
          }
          break;
        case Harm::kSignalOneRank:
          asleep = dice_.pick(ranks);
          ::kill(asleep, SIGSTOP);
          ::kill(one, SIGTERM);
          std::this_thread::sleep_for(milliseconds(dice_.between(50, 600)));
          ::kill(asleep, SIGCONT);
          break;
      }
    }
    end(job, harm, fmt::format("{} on {} ranks", name_of(harm), count));
  }

  void end(Job& job, Harm harm, const std::string& where) {
    const std::optional<int> code = job.wait(kLimit);
    if (!code) {
      ADD_FAILURE() << where << ": hangs, see " << log_;
      over_ = true;
      return;
    }
    if (*code == 0) return check_plan(where);
    const bool saves = harm == Harm::kSignal || harm == Harm::kSignalOneRank;
    // a signal may come before the handlers are there
    const bool killed = *code == 128 + SIGTERM || *code == 128 + SIGUSR1;
    if (saves && *code != kStopped && !killed) {
      ADD_FAILURE() << where << ": exit code " << *code << ", see " << log_;
      over_ = true;
    }
  }

  void last_run() {
    const int count = any_ranks();
    Job job(line(), count, log_);
    const std::optional<int> code = job.wait(kLimit);
    if (code != 0) {
      ADD_FAILURE() << fmt::format("{}: exit code {} on {} ranks, see {}", subject_.name,
                                   code.value_or(124), count, log_.string());
      return;
    }
    check_plan(fmt::format("gone on with on {} ranks", count));
  }

  void check_plan(const std::string& where) {
    over_ = true;
    EXPECT_EQ(without_search(read_file(plan_)), expected_)
        << subject_.name << ", " << where << ", see " << log_;
  }

  using Clock = std::chrono::steady_clock;

  const Subject& subject_;
  std::string expected_;
  Dice dice_;
  fs::path checkpoint_, plan_, log_;
  bool over_ = false;
  int hurt_in_saves_ = 0;
  int early_ = 0;
};

TEST(ResumeCampaign, AlwaysTheUndisturbedPlan) {
  const char* soak = std::getenv("NESTPLAN_SOAK");
  const bool soaking = soak != nullptr && std::string(soak) != "0";
  const auto rounds = testing::seeds(soaking ? 5 : 1);
  const int most_harms = soaking ? 3 : 1;
  Scratch scratch;
  const std::vector<Subject> all = subjects();
  std::vector<std::string> expected;
  for (const Subject& subject : all) {
    const Answer answer = plan(subject.flags, {0, ""}, kLimit, scratch.path());
    ASSERT_EQ(answer.exit_code, 0) << answer.said;
    expected.push_back(answer.plan);
  }
  std::uint64_t seed = 0;
  for (const Harm harm : kHarms) {
    int in_saves = 0, early = 0;
    for (std::uint64_t round = 0; round < rounds && !HasFailure(); ++round, ++seed) {
      const std::size_t which = seed % all.size();
      Ordeal ordeal(all[which], expected[which], scratch.path(), seed);
      ordeal.undergo(harm, most_harms);
      in_saves += ordeal.hurt_in_saves();
      early += ordeal.early();
    }
    fmt::print("{}: {} runs, {} times in a save, {} times too late\n", name_of(harm), rounds,
               in_saves, early);
  }
  if (HasFailure()) scratch.keep();
}

}  // namespace
}  // namespace nestplan::campaign
