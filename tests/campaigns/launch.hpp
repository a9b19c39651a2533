#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace nestplan::campaign {

using Words = std::vector<std::string>;

/// A directory of this object's own, gone with it unless it is to be kept.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  bool kept_ = false;
  std::filesystem::path path_;
};

/// How ranks are arranged.
struct Layout {
  int ranks = 0;     ///< 0: no launcher
  std::string grid;  ///< of --grid; empty: chosen by the program

  std::string name() const;
};

/// The chosen layout and every G x D x S with as many ranks.
std::vector<Layout> layouts(int ranks);

struct Answer {
  int exit_code = -1;   ///< 124: took longer than `limit`
  std::string plan;     ///< the plan file without its `search`; empty if none was written
  std::string command;  ///< for a shell, but for the environment
  std::string said;     ///< stdout and stderr
};

/// Runs `nestplan plan` with these flags and reads what it wrote.
Answer plan(const Words& flags, const Layout& layout, std::chrono::seconds limit,
            const std::filesystem::path& directory);

/// The text of a plan file up to its last member, `search`: the only one that may differ between
/// runs. Throws std::runtime_error where it is not the last.
std::string without_search(const std::string& plan);

/// NAME=VALUE of the environment that ranks need on a machine with fewer cores than ranks.
Words launch_settings();

std::string read_file(const std::filesystem::path& path);

}  // namespace nestplan::campaign
