// Exports the models of torch_models.py with the PyTorch that is installed and compares what they
// become with what the files in data do. Skipped without PyTorch.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "importers/samples.hpp"

namespace nestplan::importers {
namespace {

namespace fs = std::filesystem;

/// Of Debian, which may not be the first on the path.
constexpr const char* kPython = "/usr/bin/python3";

bool run(const std::string& command) { return std::system(command.c_str()) == 0; }

class TorchExport : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!run(std::string(kPython) + " -c 'import torch' 2>/dev/null")) {
      GTEST_SKIP() << kPython << " has no torch: python3-torch of Debian";
    }
    folder_ = fs::path(testing::TempDir()) / ("torch_export_" + GetParam());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string lower() const {
    std::string name = GetParam();
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
  }

  void expect_as_before(const std::string& name) const {
    Options options;
    options.tp = {1, 2};
    const std::string content = io::read_text(folder_ / name);
    const Imported fresh = test::import(content, name, detect_format(content, name), options);
    EXPECT_EQ(fresh.graph, test::import_sample(name, options).graph);
  }

  const std::string source_ = NESTPLAN_SOURCE_DIR;
  fs::path folder_;
};

TEST_P(TorchExport, OnnxIsReadAsBefore) {
  const std::string file = lower() + ".onnx";
  ASSERT_TRUE(run("PYTHONDONTWRITEBYTECODE=1 " + std::string(kPython) + " '" + source_ +
                  "/tests/importers/export_onnx.py' " + GetParam() + " '" +
                  (folder_ / file).string() + "' --symbolic"));
  expect_as_before(file);
}

TEST_P(TorchExport, FxIsReadAsBefore) {
  const std::string file = lower() + ".fx.json";
  const std::string input = GetParam() == "ConvNet"   ? "3x32x32"
                            : GetParam() == "Encoder" ? "8x16"
                                                      : "8:int64";
  ASSERT_TRUE(run("PYTHONDONTWRITEBYTECODE=1 " + std::string(kPython) + " '" + source_ +
                  "/inputs/export_torch_graph.py' '" + source_ +
                  "/tests/importers/torch_models.py:" + GetParam() + "' --input " + input +
                  " --batch 1,2 -o '" + (folder_ / file).string() + "'"));
  expect_as_before(file);
}

INSTANTIATE_TEST_SUITE_P(Models, TorchExport,
                         testing::Values("Gpt", "Llama", "Encoder", "ConvNet"));

}  // namespace
}  // namespace nestplan::importers
