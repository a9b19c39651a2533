#include "cli/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

extern char** environ;

namespace nestplan::test {
namespace {

/// Lets more ranks than cores run on a machine of any kind.
void allow_ranks() {
  for (const auto& [name, value] : {std::pair{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                    {"OMPI_MCA_btl", "self,vader"},
                                    {"OMPI_MCA_mpi_yield_when_idle", "1"}}) {
    ::setenv(name, value, 1);
  }
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const std::filesystem::path& directory,
                 const std::string& stdout_file, int ranks)
    : out_(stdout_file.empty() ? directory / "stdout" : std::filesystem::path(stdout_file)),
      err_(directory / "stderr") {
  std::vector<std::string> words;
  if (ranks > 0) {
    allow_ranks();
    words = {MPIEXEC, "-n", std::to_string(ranks)};
  }
  words.emplace_back(NESTPLAN_BINARY);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  constexpr int kCreate = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), kCreate, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), kCreate, 0600);
  const int error = posix_spawn(&pid_, argv.front(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words.front());
}

Process::~Process() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::send(int signal) const { ::kill(pid_, signal); }

Outcome Process::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const bool regular = std::filesystem::is_regular_file(out_);
  return {code, regular ? read_file(out_) : "", read_file(err_)};
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace nestplan::test
