#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaigns/launch.hpp"

namespace nestplan::campaign {

/// A nestplan on some ranks that runs beside the test. It ends with this object.
class Job {
 public:
  /// `ranks`: under mpirun with as many; 0: without. What it says goes to `log`.
  Job(const Words& arguments, int ranks, const std::filesystem::path& log);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The processes of its ranks, as far as they have started and not ended.
  std::vector<pid_t> ranks() const;
  /// To mpirun; without it to the process.
  void send(int signal) const;

  bool ended();
  /// The exit code (128 + signal if it was killed) once all its processes are gone; nothing if that
  /// takes longer than `limit`.
  std::optional<int> wait(std::chrono::seconds limit);

 private:
  bool launched_ = false;
  pid_t pid_ = -1;
  std::optional<int> code_;
  std::vector<pid_t> seen_;
};

}  // namespace nestplan::campaign
