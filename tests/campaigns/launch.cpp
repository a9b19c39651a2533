#include "campaigns/launch.hpp"

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace nestplan::campaign {
namespace {

std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,=:+";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

}  // namespace

/// What a machine with fewer cores than ranks, and perhaps with no user but root, needs.
Words launch_settings() {
  return {"OMPI_ALLOW_RUN_AS_ROOT=1",
          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_rmaps_base_oversubscribe=1",
          "OMPI_MCA_hwloc_base_binding_policy=none",
          "OMPI_MCA_btl=self,vader",
          "OMPI_MCA_mpi_yield_when_idle=1"};
}

Scratch::Scratch() {
  std::string name = (std::filesystem::temp_directory_path() / "nestplan-campaign-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  path_ = name;
}

Scratch::~Scratch() {
  if (kept_) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Layout::name() const {
  if (ranks == 0) return "no launcher";
  return std::to_string(ranks) + " ranks, " + (grid.empty() ? "grid chosen" : "grid " + grid);
}

std::vector<Layout> layouts(int ranks) {
  std::vector<Layout> all{{ranks, ""}};
  for (int groups = 1; groups <= ranks; ++groups) {
    for (int shares = 1; groups * shares <= ranks; ++shares) {
      if (ranks % (groups * shares) != 0) continue;
      all.push_back({ranks, std::to_string(groups) + "x" + std::to_string(shares) + "x" +
                                std::to_string(ranks / (groups * shares))});
    }
  }
  return all;
}

Answer plan(const Words& flags, const Layout& layout, std::chrono::seconds limit,
            const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / "plan.json";
  const std::filesystem::path log = directory / "log";
  std::filesystem::remove(file);
  Words words;
  if (layout.ranks > 0) words = {MPIEXEC, "-n", std::to_string(layout.ranks)};
  words.insert(words.end(), {NESTPLAN_BINARY, "plan"});
  words.insert(words.end(), flags.begin(), flags.end());
  if (layout.ranks == 0) words.emplace_back("--single-process");
  if (!layout.grid.empty()) words.insert(words.end(), {"--grid", layout.grid});
  words.insert(words.end(), {"-q", "-o", file.string()});

  Answer answer;
  answer.command = joined(words);
  const std::string full = joined(launch_settings()) + " timeout -k 10 " +
                           std::to_string(limit.count()) + " " + answer.command + " >" +
                           quoted(log.string()) + " 2>&1 </dev/null";
  const int status = std::system(full.c_str());
  answer.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  answer.said = read_file(log);
  if (std::filesystem::exists(file)) answer.plan = without_search(read_file(file));
  return answer;
}

std::string without_search(const std::string& plan) {
  constexpr const char* kSearch = ",\n  \"search\": {\n";
  constexpr const char* kEnd = "\n  }\n}\n";
  const std::size_t begin = plan.find(kSearch);
  const std::size_t end = plan.find(kEnd, begin);
  if (begin == std::string::npos || end + std::string(kEnd).size() != plan.size()) {
    throw std::runtime_error("`search` is not the last member of the plan:\n" + plan);
  }
  return plan.substr(0, begin);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace nestplan::campaign
