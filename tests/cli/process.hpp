#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace nestplan::test {

/// How a program ended and what it said.
struct Outcome {
  int exit_code = -1;  ///< 128 + signal if it was killed
  std::string out;
  std::string err;
};

/// A nestplan that runs beside the test. Its output is collected in `directory`.
class Process {
 public:
  /// `stdout_file`: where stdout goes instead, if given. `ranks`: under mpirun with as many, if
  /// more than 0.
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& directory,
          const std::string& stdout_file = "", int ranks = 0);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void send(int signal) const;
  Outcome wait();

 private:
  std::filesystem::path out_;
  std::filesystem::path err_;
  pid_t pid_ = -1;
};

std::string read_file(const std::filesystem::path& path);

}  // namespace nestplan::test
