#include "campaigns/job.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace nestplan::campaign {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kGlance{5};

/// Processes that `parent` has started.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& thread :
       fs::directory_iterator("/proc/" + std::to_string(parent) + "/task", error)) {
    std::ifstream list(thread.path() / "children");
    for (pid_t child = 0; list >> child;) children.push_back(child);
  }
  return children;
}

/// False also for one that has ended and was not waited for.
bool is_alive(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(status, text);
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.size() > name_end + 2 && text[name_end + 2] != 'Z' &&
         text[name_end + 2] != 'X';
}

bool is_nestplan(pid_t process) {
  std::error_code error;
  return fs::read_symlink("/proc/" + std::to_string(process) + "/exe", error) ==
         fs::canonical(NESTPLAN_BINARY);
}

}  // namespace

Job::Job(const Words& arguments, int ranks, const fs::path& log) : launched_(ranks > 0) {
  Words words;
  if (launched_) words = {MPIEXEC, "-n", std::to_string(ranks)};
  words.emplace_back(NESTPLAN_BINARY);
  words.insert(words.end(), arguments.begin(), arguments.end());
  if (!launched_) words.emplace_back("--single-process");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  Words settings = launch_settings();
  std::vector<char*> environment;
  for (std::string& setting : settings) environment.push_back(setting.data());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.push_back(*variable);
  }
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int error =
      posix_spawn(&pid_, argv.front(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + words.front());
}

Job::~Job() {
  if (code_) return;
  for (const pid_t rank : ranks()) ::kill(rank, SIGKILL);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::vector<pid_t> Job::ranks() const {
  if (code_) return {};
  std::vector<pid_t> alive;
  for (const pid_t process : launched_ ? children_of(pid_) : std::vector<pid_t>{pid_}) {
    if (is_alive(process) && is_nestplan(process)) alive.push_back(process);
  }
  return alive;
}

void Job::send(int signal) const {
  if (!code_) ::kill(pid_, signal);
}

bool Job::ended() {
  if (code_) return true;
  const std::vector<pid_t> now = ranks();
  seen_.insert(seen_.end(), now.begin(), now.end());
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return true;
}

std::optional<int> Job::wait(std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto gone = [this] {
    return std::none_of(seen_.begin(), seen_.end(),
                        [](pid_t process) { return is_alive(process) && is_nestplan(process); });
  };
  while (!ended() || !gone()) {
    if (std::chrono::steady_clock::now() > end) return std::nullopt;
    std::this_thread::sleep_for(kGlance);
  }
  return code_;
}

}  // namespace nestplan::campaign
