#include "nestplan/io/checkpoint.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/checkpoint_state.hpp"
#include "io/descriptor.hpp"
#include "io/hdf5.hpp"
#include "io/samples.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

/// Asked by the leak sanitizer: HDF5 1.10 forgets memory when it refuses a damaged file.
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace nestplan::io {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using test::expect_contains;
using test::message_of;
using test::TemporaryDirectory;
using test_state::holds;
using test_state::no_warning;
using test_state::save;
using test_state::State;

void write_state(CheckpointFile& file, const State& state,
                 const CheckpointFile::Observer& observer = {}) {
  file.write([&](solver::SnapshotWriter& writer) { save(writer, state); }, observer);
}

std::unique_ptr<CheckpointReader> open_quietly(const fs::path& path) {
  return open_checkpoint(path, nullptr, no_warning);
}

/// Opens and counts warnings.
struct Opened {
  std::unique_ptr<CheckpointReader> reader;
  std::vector<std::string> warnings;

  explicit Opened(const fs::path& path) {
    reader = open_checkpoint(path, nullptr,
                             [&](const std::string& warning) { warnings.push_back(warning); });
  }
};

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Runs `work` in a process of its own; its exit code, or the negative signal that ended it.
int in_child(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(99);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

bool soak() {
  const char* value = std::getenv("NESTPLAN_SOAK");
  return value != nullptr && std::string(value) != "0";
}

class CheckpointTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  fs::path path_ = directory_ / "search.h5";
  fs::path previous_ = directory_ / "search.h5.1";
};

TEST_F(CheckpointTest, GivesBackWhatWasSaved) {
  for (const std::int64_t size : {1, 100, 32767, 32768, 32769, 200000}) {
    const State state{static_cast<std::uint64_t>(size), size};
    {
      CheckpointFile file(path_, nullptr);
      write_state(file, state);
    }
    const auto reader = open_quietly(path_);
    EXPECT_TRUE(holds(*reader, state)) << size;
    EXPECT_EQ(reader->path(), path_);
    EXPECT_EQ(reader->entries().size(), 8U);
    EXPECT_EQ(reader->entries()[7].name, "search/table");
    EXPECT_EQ(reader->entries()[7].size, size);
    EXPECT_EQ(name_of(reader->entries()[7].kind), "pieces");
    EXPECT_TRUE(reader->has("problem"));
    EXPECT_FALSE(reader->has("search"));
  }
  EXPECT_EQ(names_in(directory_.path()), (std::vector<std::string>{"search.h5", "search.h5.1"}));
}

TEST_F(CheckpointTest, ReadsAnyPartOfAnArray) {
  const State state{5, 150000};
  CheckpointFile file(path_, nullptr);
  write_state(file, state);
  const auto reader = open_quietly(path_);
  testing::Dice dice(7);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const std::int64_t begin =
        dice.chance(30) ? dice.between(0, 4) * 32768 : dice.between(0, state.table_size);
    const std::int64_t end =
        dice.chance(30) ? state.table_size : dice.between(begin, state.table_size);
    std::vector<double> values(static_cast<std::size_t>(end - begin));
    reader->read("search/table", begin, values);
    for (std::int64_t at = begin; at < end; ++at) {
      ASSERT_EQ(values[static_cast<std::size_t>(at - begin)], state.table(at))
          << begin << " " << at;
    }
  }
  std::vector<double> values(2);
  for (const std::int64_t offset : {std::int64_t{-1}, state.table_size - 1, state.table_size + 1}) {
    EXPECT_THROW(reader->read("search/table", offset, values), InternalError);
  }
}

TEST_F(CheckpointTest, NamesWhatIsNotThere) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{});
  const auto reader = open_quietly(path_);
  expect_contains(message_of([&] { reader->text("nothing"); }), "there is no nothing");
  expect_contains(message_of([&] { reader->text("search"); }), "there is no search");
  expect_contains(message_of([&] { reader->integers("problem"); }),
                  "problem is of kind text, not integers");
  expect_contains(message_of([&] { reader->reals("search/table"); }),
                  "search/table is of kind pieces, not reals");
  expect_contains(message_of([&] { reader->size("search/incumbent"); }),
                  "search/incumbent is of kind reals, not pieces");
}

TEST_F(CheckpointTest, RefusesWhatMayNotBeSaved) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> three{1, 2, 3};
  const std::vector<double> with_nan{1, nan, 3};
  using Writer = solver::SnapshotWriter;
  const std::vector<std::pair<std::string, CheckpointFile::Fill>> cases{
      {"a: NaN", [&](Writer& w) { w.reals("a", with_nan); }},
      {"a: NaN",
       [&](Writer& w) {
         w.pieces("a", 3, std::vector<solver::Piece>{{0, with_nan}});
       }},
      {"the value at 3",
       [&](Writer& w) {
         w.pieces("a", 4, std::vector<solver::Piece>{{0, three}});
       }},
      {"the value at 0",
       [&](Writer& w) {
         w.pieces("a", 4, std::vector<solver::Piece>{{1, three}});
       }},
      {"the value at 2",
       [&](Writer& w) {
         w.pieces("a", 5, std::vector<solver::Piece>{{0, three}, {2, three}});
       }},
      {"a piece at 1",
       [&](Writer& w) {
         w.pieces("a", 3, std::vector<solver::Piece>{{1, three}});
       }},
      {"a piece at -1",
       [&](Writer& w) {
         w.pieces("a", 3, std::vector<solver::Piece>{{-1, three}});
       }},
      {"no size", [&](Writer& w) { w.pieces("a", -1, {}); }},
      {"the value at 0", [&](Writer& w) { w.pieces("a", 1, {}); }},
      {"there already", [&](Writer& w) { w.text("a", "1"), w.text("a", "1"); }},
      {"in its way", [&](Writer& w) { w.text("a", "1"), w.text("a/b", "1"); }},
      {"other names continue it", [&](Writer& w) { w.text("a/b", "1"), w.text("a", "1"); }},
      {"not a path of names", [&](Writer& w) { w.text("", "1"); }},
      {"not a path of names", [&](Writer& w) { w.text("/a", "1"); }},
      {"not a path of names", [&](Writer& w) { w.text("a/", "1"); }},
      {"not a path of names", [&](Writer& w) { w.text("a/../b", "1"); }},
  };
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1});
  for (const auto& [reason, fill] : cases) {
    expect_contains(message_of<InternalError>([&, &f = fill] { file.write(f); }), reason);
    EXPECT_EQ(names_in(directory_.path()),
              (std::vector<std::string>{"search.h5", "search.h5.lock"}));
  }
  EXPECT_TRUE(holds(*open_quietly(path_), State{1}));
  write_state(file, State{2});
  EXPECT_TRUE(holds(*open_quietly(path_), State{2}));
}

TEST_F(CheckpointTest, PassesOnWhatTheSearchThrows) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1});
  EXPECT_THROW(file.write([](solver::SnapshotWriter& writer) {
    writer.text("a", "b");
    throw std::out_of_range("mine");
  }),
               std::out_of_range);
  // an error that the search swallows is not forgotten
  EXPECT_THROW(file.write([](solver::SnapshotWriter& writer) {
    try {
      writer.text("", "b");
    } catch (const InternalError&) {
    }
  }),
               InternalError);
  EXPECT_TRUE(holds(*open_quietly(path_), State{1}));
}

TEST_F(CheckpointTest, KeepsThePreviousGeneration) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1});
  EXPECT_FALSE(fs::exists(previous_));
  for (std::uint64_t generation = 2; generation < 5; ++generation) {
    write_state(file, State{generation});
    EXPECT_TRUE(holds(*open_quietly(path_), State{generation}));
    EXPECT_TRUE(holds(*open_quietly(previous_), State{generation - 1}));
  }
  file.discard();
  EXPECT_EQ(names_in(directory_.path()), (std::vector<std::string>{"search.h5.lock"}));
  file.discard();
  write_state(file, State{9});
  EXPECT_TRUE(holds(*open_quietly(path_), State{9}));
}

TEST_F(CheckpointTest, SameStateSameBytes) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1, 40000});
  write_state(file, State{1, 40000});
  EXPECT_EQ(content_of(path_), content_of(previous_));
}

TEST_F(CheckpointTest, TakesThePreviousGenerationWhenTheNewestIsGone) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1});
  write_state(file, State{2});
  const std::string newest = content_of(path_);
  for (const std::string& content : {std::string(), std::string("text"), newest.substr(0, 3000),
                                     newest.substr(0, newest.size() - 1)}) {
    test::write(path_, content);
    const Opened opened(path_);
    EXPECT_TRUE(holds(*opened.reader, State{1}));
    EXPECT_EQ(opened.reader->path(), previous_);
    ASSERT_EQ(opened.warnings.size(), 1U);
    expect_contains(opened.warnings[0], path_.string() + ": ");
    expect_contains(opened.warnings[0], "the generation before it, " + previous_.string());
  }
  fs::remove(path_);
  const Opened opened(path_);
  EXPECT_TRUE(holds(*opened.reader, State{1}));
  expect_contains(opened.warnings.at(0), path_.string() + ": does not exist; going on");
}

TEST_F(CheckpointTest, DoesNotReplaceTheGoodGenerationByTheDamagedOne) {
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, State{1});
    write_state(file, State{2});
  }
  test::write(path_, content_of(path_).substr(0, 3000));
  CheckpointFile file(path_, nullptr);
  write_state(file, State{3});
  EXPECT_TRUE(holds(*open_quietly(path_), State{3}));
  EXPECT_TRUE(holds(*open_quietly(previous_), State{1}));
}

/// Overwrites one byte, and nothing else.
void put_byte(const fs::path& path, std::size_t at, char byte) {
  const Descriptor file(::open(path.c_str(), O_WRONLY));
  EXPECT_EQ(::pwrite(file.get(), &byte, 1, static_cast<off_t>(at)), 1);
}

TEST_F(CheckpointTest, NeverTakesADamagedByteForAValue) {
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, State{1});
    write_state(file, State{2});
  }
  const std::string good = content_of(path_);
  const fs::path alone = directory_ / "alone.h5";
  test::write(alone, good);
  std::size_t refused = 0;
  std::size_t harmless = 0;
  const std::size_t step = soak() ? 1 : 7;
  for (std::size_t at = 0; at < good.size(); at += step) {
    const char flipped = static_cast<char>(~good[at]);
    put_byte(alone, at, flipped);
    try {
      ASSERT_TRUE(holds(*open_quietly(alone), State{2})) << "wrong values, byte " << at;
      ++harmless;
    } catch (const InvalidInput&) {
      ++refused;
      put_byte(path_, at, flipped);
      const Opened opened(path_);
      ASSERT_TRUE(holds(*opened.reader, State{1})) << at;
      ASSERT_EQ(opened.warnings.size(), 1U);
      put_byte(path_, at, good[at]);
    }
    put_byte(alone, at, good[at]);
  }
  // every value and most metadata matter; the rest is room between them
  EXPECT_GT(refused, 3000 / step) << "of " << good.size();
  RecordProperty("harmless", std::to_string(harmless));
  EXPECT_TRUE(holds(*open_quietly(path_), State{2}));
}

TEST_F(CheckpointTest, RefusesTruncatedFiles) {
  const State state{1, 70000};
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, state);
  }
  const std::string good = content_of(path_);
  for (std::size_t size = 0; size < good.size(); size += 1024) {
    test::write(path_, good.substr(0, size));
    EXPECT_THROW(open_quietly(path_), InvalidInput) << size;
  }
  fs::resize_file(path_, 100);
  fs::resize_file(path_, good.size());  // zeros in place of values
  EXPECT_THROW(open_quietly(path_), InvalidInput);
}

TEST_F(CheckpointTest, VerifiesAgainWhatIsRead) {
  const State state{1, 70000};
  CheckpointFile file(path_, nullptr);
  write_state(file, state);
  const auto reader = open_quietly(path_);
  const std::string good = content_of(path_);
  const double value = state.table(50000);
  const std::size_t at =
      good.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  ASSERT_NE(at, std::string::npos);
  std::fstream damage(path_, std::ios::in | std::ios::out | std::ios::binary);
  damage.seekp(static_cast<std::streamoff>(at));
  damage.put('x').flush();
  std::vector<double> values(10);
  reader->read("search/table", 0, values);
  expect_contains(message_of<IoError>([&] { reader->read("search/table", 50005, values); }),
                  "search/table differs from what was saved");
}

TEST_F(CheckpointTest, ReadsOnWhenThePathIsReplaced) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1});
  const auto reader = open_quietly(path_);
  write_state(file, State{2});
  write_state(file, State{3});
  EXPECT_TRUE(holds(*reader, State{1}));
}

TEST_F(CheckpointTest, RefusesOtherFiles) {
  const auto refusal = [&] { return message_of([&] { open_quietly(path_); }); };
  expect_contains(refusal(), path_.string() + ": does not exist");
  test::write(path_, "");
  expect_contains(refusal(), "is empty");
  test::write(path_, "{\"format\": \"nestplan.plan/1\"}");
  expect_contains(refusal(), "is not an HDF5 file");
  fs::remove(path_);
  fs::create_directory(path_);
  expect_contains(refusal(), "is not a regular file");
}

void write_hdf5(const fs::path& path, const std::string& format) {
  hdf5::File file = hdf5::File::create(path.string(), nullptr);
  if (!format.empty()) file.set("/", "format", format);
  hdf5::Dataset data = file.create("/state/a", hdf5::Element::kReal, 1);
  const double value = 1;
  data.write(0, 1, &value);
}

TEST_F(CheckpointTest, RefusesOtherFormatsEvenIfThePreviousGenerationIsGood) {
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, State{1});
    write_state(file, State{2});
  }
  const std::vector<std::pair<std::string, std::string>> formats{
      {"", "not a checkpoint of nestplan (format missing)"},
      {"other", "not a checkpoint of nestplan (format other)"},
      {"nestplan.checkpoint/2",
       "version 2 of checkpoints is unknown (this is nestplan.checkpoint/1)"},
      {"nestplan.checkpoint/10", "version 10 of checkpoints is unknown"}};
  for (const auto& [format, reason] : formats) {
    write_hdf5(path_, format);
    expect_contains(message_of([&] { open_quietly(path_); }), reason);
    expect_contains(message_of([&] { CheckpointFile file(path_, nullptr); }),
                    "will not be replaced by a checkpoint");
  }
  write_hdf5(path_, "nestplan.checkpoint/1");
  const Opened opened(path_);
  expect_contains(opened.warnings.at(0), "is damaged: /state/a is not of kind missing");
}

TEST_F(CheckpointTest, SaysWhyNeitherGenerationIsGood) {
  test::write(path_, "x");
  test::write(previous_, "");
  const std::string message = message_of([&] { open_quietly(path_); });
  expect_contains(message, path_.string() + ": is not an HDF5 file");
  expect_contains(message, previous_.string() + ": is empty");
}

TEST_F(CheckpointTest, DoesNotReplaceOtherFiles) {
  test::write(path_, "my thesis");
  expect_contains(message_of([&] { CheckpointFile file(path_, nullptr); }),
                  "is not an HDF5 file, as checkpoints are; it will not be replaced");
  EXPECT_EQ(content_of(path_), "my thesis");
  EXPECT_EQ(names_in(directory_.path()).size(), 1U);
}

TEST_F(CheckpointTest, FollowsLinks) {
  fs::create_directory(directory_ / "elsewhere");
  fs::create_symlink("elsewhere/real.h5", path_);
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, State{1});
    write_state(file, State{2});
    expect_contains(
        message_of<IoError>([&] { CheckpointFile(directory_ / "elsewhere/real.h5", nullptr); }),
        "is in use by");
  }
  EXPECT_TRUE(fs::is_symlink(path_));
  EXPECT_TRUE(holds(*open_quietly(path_), State{2}));
  EXPECT_EQ(names_in(directory_ / "elsewhere"), (std::vector<std::string>{"real.h5", "real.h5.1"}));
  fs::remove(directory_ / "elsewhere/real.h5");
  EXPECT_TRUE(holds(*Opened(path_).reader, State{1})) << "the one beside the target";
}

TEST_F(CheckpointTest, FailsBeforeTheSearchWhereItCannotSave) {
  const auto refusal = [](const fs::path& path) {
    return message_of<IoError>([&] { CheckpointFile file(path, nullptr); });
  };
  expect_contains(refusal(directory_ / "no/search.h5"), "does not exist");
  expect_contains(refusal(directory_.path()), "Is a directory");
  expect_contains(refusal(""), "does not name a file");
  fs::permissions(directory_.path(), fs::perms::owner_read | fs::perms::owner_exec |
                                         fs::perms::others_read | fs::perms::others_exec);
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(98);
    try {
      CheckpointFile file(path_, nullptr);
    } catch (const IoError& error) {
      ::_exit(std::string(error.what()).find("Permission denied") != std::string::npos ? 3 : 4);
    }
  });
  EXPECT_EQ(code, 3);
  fs::permissions(directory_.path(), fs::perms::owner_all);
}

TEST_F(CheckpointTest, SurvivesThatTheDirectoryVanishes) {
  const fs::path path = directory_ / "run/search.h5";
  fs::create_directory(directory_ / "run");
  CheckpointFile file(path, nullptr);
  write_state(file, State{1});
  // while it is written
  const auto vanish = [&](std::string_view step) {
    if (step == "created") fs::rename(directory_ / "run", directory_ / "gone");
  };
  expect_contains(message_of<IoError>([&] { write_state(file, State{2}, vanish); }),
                  "No such file");
  // and before
  expect_contains(message_of<IoError>([&] { write_state(file, State{2}); }), "No such file");
  EXPECT_TRUE(holds(*open_quietly(directory_ / "gone/search.h5"), State{1}));
  fs::remove(directory_ / "gone/search.h5.tmp");
  fs::rename(directory_ / "gone", directory_ / "run");
  write_state(file, State{3});
  EXPECT_TRUE(holds(*open_quietly(path), State{3}));
}

TEST_F(CheckpointTest, OneWriterAtATime) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    ::setenv("SLURM_JOB_ID", "4711", 1);
    const CheckpointFile file(path_, nullptr);
    (void)!::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const std::string message = message_of<IoError>([&] { CheckpointFile file(path_, nullptr); });
  expect_contains(message, "the checkpoint is in use by process " + std::to_string(other) + " on ");
  expect_contains(message, ", job 4711");
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_TRUE(fs::exists(directory_ / "search.h5.lock")) << "nobody was there to remove it";
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, State{1});
    EXPECT_THROW(CheckpointFile(path_, nullptr), IoError);
  }
  EXPECT_FALSE(fs::exists(directory_ / "search.h5.lock"));
  const CheckpointFile again(path_, nullptr);
}

TEST_F(CheckpointTest, TakesTheLockAgainWhenItsFileIsRemoved) {
  CheckpointFile file(path_, nullptr);
  fs::remove(directory_ / "search.h5.lock");
  write_state(file, State{1});
  EXPECT_TRUE(fs::exists(directory_ / "search.h5.lock"));
  fs::remove(directory_ / "search.h5.lock");
  const CheckpointFile other(path_, nullptr);
  expect_contains(message_of<IoError>([&] { write_state(file, State{2}); }), "is in use by");
}

TEST_F(CheckpointTest, ExplainsLocksOfHdf5) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1});
  const Descriptor other(::open(path_.c_str(), O_RDWR));
  ASSERT_EQ(::flock(other.get(), LOCK_EX), 0);
  const std::string message = message_of<IoError>([&] { open_quietly(path_); });
  expect_contains(message, "lock");
  expect_contains(message, "HDF5_USE_FILE_LOCKING=FALSE");
}

TEST_F(CheckpointTest, SurvivesAFullDisk) {
  const fs::path mount = directory_ / "small";
  fs::create_directory(mount);
  const test_state::SmallDisk disk(mount, "1m");
  if (!disk.there()) GTEST_SKIP() << "only root can make a small file system";
  {
    CheckpointFile file(mount / "search.h5", nullptr);
    write_state(file, State{1, 10000});
    for (int i = 0; i < 3; ++i) {
      expect_contains(message_of<IoError>([&] {
                        write_state(file, State{2, 1000000});
                      }),
                      "search.h5.tmp: cannot be written: No space left on device");
      EXPECT_TRUE(holds(*open_quietly(mount / "search.h5"), State{1, 10000}));
    }
    EXPECT_EQ(names_in(mount), (std::vector<std::string>{"search.h5", "search.h5.lock"}));
    write_state(file, State{3, 10000});
    EXPECT_TRUE(holds(*open_quietly(mount / "search.h5"), State{3, 10000}));
  }
}

TEST_F(CheckpointTest, SurvivesAWriteThatFails) {
  CheckpointFile file(path_, nullptr);
  write_state(file, State{1});
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t most : {100U, 5000U, 100000U, 300000U}) {
    const rlimit small{most, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    expect_contains(message_of<IoError>([&] {
                      write_state(file, State{2, 100000});
                    }),
                    "File too large");
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_EQ(names_in(directory_.path()),
              (std::vector<std::string>{"search.h5", "search.h5.lock"}));
  }
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(holds(*open_quietly(path_), State{1}));
  write_state(file, State{3});
  EXPECT_TRUE(holds(*open_quietly(path_), State{3}));
}

TEST_F(CheckpointTest, SomeGenerationIsGoodWhereverTheProcessDies) {
  std::vector<std::string> steps;
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, State{1});
    write_state(file, State{2}, [&](std::string_view step) { steps.emplace_back(step); });
  }
  ASSERT_GE(steps.size(), 7U);
  std::uint64_t generation = 2;
  for (const std::string& last : steps) {
    const std::uint64_t next = generation + 1;
    EXPECT_EQ(in_child([&] {
                CheckpointFile file(path_, nullptr);
                write_state(file, State{next}, [&](std::string_view step) {
                  if (step == last) ::_exit(7);
                });
              }),
              7);
    const auto reader = open_quietly(path_);
    const bool is_new = holds(*reader, State{next});
    EXPECT_TRUE(is_new || holds(*reader, State{generation})) << last;
    EXPECT_EQ(is_new, last == "renamed" || last == "done") << last;
    if (is_new) generation = next;
    CheckpointFile file(path_, nullptr);
    write_state(file, State{++generation});
    EXPECT_TRUE(holds(*open_quietly(path_), State{generation})) << last;
    EXPECT_NO_THROW(open_quietly(previous_)) << last;
  }
}

TEST_F(CheckpointTest, SomeGenerationIsGoodWheneverTheProcessIsKilled) {
  {
    CheckpointFile file(path_, nullptr);
    write_state(file, State{1, 50000});
  }
  testing::Dice dice(3);
  for (std::uint64_t i = 0; i < testing::seeds(10); ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      CheckpointFile file(path_, nullptr);
      for (;;) write_state(file, State{1, 50000});
    }
    std::this_thread::sleep_for(std::chrono::microseconds(dice.between(0, 50000)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(holds(*open_quietly(path_), (State{1, 50000})));
  }
}

TEST_F(CheckpointTest, HoldsMoreThanFourGibibytes) {
  if (!soak()) GTEST_SKIP() << "only with NESTPLAN_SOAK=1: writes 8 GiB";
  const std::int64_t block = std::int64_t{1} << 19;
  std::vector<double> values(static_cast<std::size_t>(block));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  CheckpointFile file(path_, nullptr);
  for (const std::int64_t size : {(std::int64_t{1} << 28) + 5, (std::int64_t{1} << 29) + 5}) {
    std::vector<solver::Piece> pieces;
    for (std::int64_t at = 0; at < size; at += block) {
      pieces.push_back({at, std::span<const double>(values).first(
                                static_cast<std::size_t>(std::min(block, size - at)))});
    }
    file.write([&](solver::SnapshotWriter& writer) { writer.pieces("table", size, pieces); });
    const auto reader = open_quietly(path_);
    ASSERT_EQ(reader->size("table"), size);
    std::vector<double> read(static_cast<std::size_t>(block));
    for (std::int64_t at = 0; at < size; at += block) {
      const auto part = std::span(read).first(static_cast<std::size_t>(std::min(block, size - at)));
      reader->read("table", at, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), values.begin())) << at;
    }
  }
}

TEST_F(CheckpointTest, OtherToolsReadIt) {
  if (std::system("command -v h5dump >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "h5dump is not installed";
  }
  CheckpointFile file(path_, nullptr);
  write_state(file, State{7});
  const fs::path dump = directory_ / "dump.txt";
  const std::string command = "h5dump '" + path_.string() + "' > '" + dump.string() + "' 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << content_of(dump);
  for (const char* part : {"\"nestplan.checkpoint/1\"", "DATASET \"incumbent\"", "GROUP \"hashes\"",
                           "ATTRIBUTE \"block_values\"", "\"pieces\"", "\"problem 7",
                           "-9223372036854775808", "-inf"}) {
    expect_contains(content_of(dump), part);
  }
}

}  // namespace
}  // namespace nestplan::io
