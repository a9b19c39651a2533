#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using test::expect_contains;
using test::message_of;
using test::TemporaryDirectory;

std::vector<std::string> entries(const TemporaryDirectory& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory.path())) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST(OutputFile, WritesAFile) {
  const TemporaryDirectory directory;
  OutputFile file(directory / "plan.json");
  EXPECT_TRUE(entries(directory).empty()) << "nothing before there is something to write";
  file.commit("content\n");
  EXPECT_EQ(content_of(directory / "plan.json"), "content\n");
  EXPECT_EQ(entries(directory).size(), 1U);
}

TEST(OutputFile, ReplacesAnExistingFileOnlyOnCommit) {
  const TemporaryDirectory directory;
  test::write(directory / "plan.json", "old");
  ::chmod((directory / "plan.json").c_str(), 0640);
  { OutputFile file(directory / "plan.json"); }
  EXPECT_EQ(content_of(directory / "plan.json"), "old");
  OutputFile file(directory / "plan.json");
  EXPECT_EQ(content_of(directory / "plan.json"), "old");
  file.commit("new");
  file.commit("newer");
  EXPECT_EQ(content_of(directory / "plan.json"), "newer");
  EXPECT_EQ(entries(directory).size(), 1U);
  const auto mode = fs::status(directory / "plan.json").permissions();
  EXPECT_EQ(static_cast<unsigned>(mode), 0640U) << "permissions are kept";
}

TEST(OutputFile, FailsAtConstruction) {
  const TemporaryDirectory directory;
  expect_contains(message_of<IoError>([&] { OutputFile file(directory.path()); }),
                  "is a directory");
  expect_contains(message_of<IoError>([&] { OutputFile file(directory / "no/plan.json"); }),
                  "no/plan.json: cannot be written: No such file");
  test::write(directory / "file", "");
  expect_contains(message_of<IoError>([&] { OutputFile file(directory / "file/plan.json"); }),
                  "Not a directory");
  message_of<IoError>([] { OutputFile file(""); });
  message_of<IoError>([&] { OutputFile file(directory / "missing/"); });
  EXPECT_EQ(entries(directory).size(), 1U);
}

TEST(OutputFile, FailsAtConstructionInAReadOnlyDirectory) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  const TemporaryDirectory directory;
  ::chmod(directory.path().c_str(), 0500);
  expect_contains(message_of<IoError>([&] { OutputFile file(directory / "plan.json"); }),
                  "Permission denied");
  ::chmod(directory.path().c_str(), 0700);
}

TEST(OutputFile, LeavesNothingBehindWhenItFails) {
  const TemporaryDirectory directory;
  OutputFile file(directory / "plan.json");
  fs::create_directory(directory / "plan.json");  // what was free is taken meanwhile
  expect_contains(message_of<IoError>([&] { file.commit("content"); }), "cannot be written");
  EXPECT_EQ(entries(directory), (std::vector<std::string>{"plan.json"}));
}

TEST(OutputFile, LongNamesFit) {
  const TemporaryDirectory directory;
  const std::string name(255, 'n');
  OutputFile(directory / name).commit("x");
  EXPECT_EQ(content_of(directory / name), "x");
}

TEST(OutputFile, FollowsLinks) {
  const TemporaryDirectory directory;
  test::write(directory / "target", "old");
  fs::create_symlink("target", directory / "link");
  OutputFile(directory / "link").commit("new");
  EXPECT_TRUE(fs::is_symlink(directory / "link"));
  EXPECT_EQ(content_of(directory / "target"), "new");
  fs::create_symlink("loop", directory / "loop");
  message_of<IoError>([&] { OutputFile file(directory / "loop"); });
}

TEST(OutputFile, WritesToOpenFilesAndPipesBehindLinks) {
  const TemporaryDirectory directory;
  test::write(directory / "log", "before\n");
  const int log = ::open((directory / "log").c_str(), O_RDWR);
  ASSERT_GE(log, 0);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  OutputFile("/dev/fd/" + std::to_string(log)).commit("after\n");
  OutputFile("/dev/fd/" + std::to_string(pipe[1])).commit("through");
  char text[16] = {};
  EXPECT_EQ(::read(pipe[0], text, sizeof text), 7);
  EXPECT_STREQ(text, "through");
  EXPECT_EQ(content_of(directory / "log"), "before\nafter\n");
  EXPECT_EQ(entries(directory).size(), 1U);
  for (const int descriptor : {log, pipe[0], pipe[1]}) ::close(descriptor);
}

TEST(OutputFile, WritesToDevicesWithoutReplacingThem) {
  OutputFile("/dev/null").commit("gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  expect_contains(message_of<IoError>([] { OutputFile("/dev/full").commit("no room"); }),
                  "No space left");
}

}  // namespace
}  // namespace nestplan::io
