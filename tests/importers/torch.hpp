#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace nestplan::importers::test {

/// Of Debian, which may not be the first on the path.
inline constexpr const char* kPython = "/usr/bin/python3";

/// How a command of the shell ended, and what it said on both streams.
struct Said {
  int exit_code = -1;
  std::string text;
};

inline Said say(const std::string& command) {
  Said said;
  FILE* const pipe = ::popen(("{ " + command + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said.text += static_cast<char>(c);
  const int status = ::pclose(pipe);
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return said;
}

inline bool has_torch() { return say(std::string(kPython) + " -c 'import torch'").exit_code == 0; }

inline std::string no_torch() {
  return std::string(kPython) + " has no torch: python3-torch of Debian";
}

/// inputs/export_torch_graph.py on `model`, as "Gpt" of torch_models.py or "file.py:function", and
/// what follows.
inline Said export_torch_graph(const std::string& model, const std::string& more) {
  const std::string source = NESTPLAN_SOURCE_DIR;
  const std::string where = model.find(':') == std::string::npos
                                ? source + "/tests/importers/torch_models.py:" + model
                                : model;
  return say("PYTHONDONTWRITEBYTECODE=1 " + std::string(kPython) + " '" + source +
             "/inputs/export_torch_graph.py' '" + where + "' " + more);
}

}  // namespace nestplan::importers::test
