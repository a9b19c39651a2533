// The example of README.md, run as it stands there. Skipped without PyTorch.

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/workspace.hpp"
#include "importers/torch.hpp"
#include "nestplan/io/files.hpp"

namespace nestplan::test {
namespace {

namespace fs = std::filesystem;

/// A line behind "$ ", and what it prints up to the next one.
struct Step {
  std::string command;
  std::string prints;
};

/// Those of the block of README.md that `mark` is in.
std::vector<Step> steps_with(const std::string& mark) {
  std::istringstream lines(io::read_text(NESTPLAN_SOURCE_DIR "/README.md"));
  std::vector<Step> steps;
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      if (found) return steps;
      steps.clear();
    } else if (line.starts_with("$ ")) {
      steps.push_back({line.substr(2), ""});
      found = found || line.find(mark) != std::string::npos;
    } else if (!steps.empty()) {
      steps.back().prints += line + "\n";
    }
  }
  return {};
}

class ImportInReadme : public Workspace {};

TEST_F(ImportInReadme, IsWhatAUserSees) {
  if (!importers::test::has_torch()) GTEST_SKIP() << importers::test::no_torch();
  const std::vector<Step> steps = steps_with("export_torch_graph.py");
  ASSERT_EQ(steps.size(), 3U);
  fs::create_directory(path("bin"));
  fs::create_directory(path("empty"));
  fs::create_symlink(NESTPLAN_BINARY, path("bin/nestplan"));
  fs::create_symlink(importers::test::kPython, path("bin/python3"));
  fs::create_symlink(NESTPLAN_SOURCE_DIR "/inputs", path("empty/inputs"));
  for (const Step& step : steps) {
    const importers::test::Said said =
        importers::test::say("cd '" + path("empty") + "' && PYTHONDONTWRITEBYTECODE=1 PATH='" +
                             path("bin") + "':\"$PATH\" " + step.command);
    EXPECT_EQ(said.exit_code, 0) << step.command;
    const std::string more = "…\n";
    if (step.prints.ends_with(more)) {
      const std::string start = step.prints.substr(0, step.prints.size() - more.size());
      EXPECT_EQ(said.text.substr(0, start.size()), start) << step.command;
    } else {
      EXPECT_EQ(said.text, step.prints) << step.command;
    }
  }
}

}  // namespace
}  // namespace nestplan::test
