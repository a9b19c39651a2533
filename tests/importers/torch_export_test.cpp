// Exports the models of torch_models.py with the PyTorch that is installed and compares what they
// become with what the files in data do. Skipped without PyTorch.

#include <gtest/gtest.h>

#include <filesystem>

#include "importers/samples.hpp"
#include "importers/torch.hpp"

namespace nestplan::importers {
namespace {

namespace fs = std::filesystem;

class TorchExport : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!test::has_torch()) GTEST_SKIP() << test::no_torch();
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
  const test::Said said = test::say("PYTHONDONTWRITEBYTECODE=1 " + std::string(test::kPython) +
                                    " '" + source_ + "/tests/importers/export_onnx.py' " +
                                    GetParam() + " '" + (folder_ / file).string() + "' --symbolic");
  ASSERT_EQ(said.exit_code, 0) << said.text;
  expect_as_before(file);
}

TEST_P(TorchExport, FxIsReadAsBefore) {
  const std::string file = lower() + ".fx.json";
  const std::string input = GetParam() == "ConvNet"   ? "3x32x32"
                            : GetParam() == "Encoder" ? "8x16"
                            : GetParam() == "T5"      ? "8:int64 --input 8:int64"
                                                      : "8:int64";
  const test::Said said = test::export_torch_graph(
      GetParam(), "--input " + input + " --batch 1,2 -o '" + (folder_ / file).string() + "'");
  ASSERT_EQ(said.exit_code, 0) << said.text;
  expect_as_before(file);
}

INSTANTIATE_TEST_SUITE_P(Models, TorchExport,
                         testing::Values("Gpt", "Llama", "Mixtral", "T5", "Encoder", "ConvNet"));

}  // namespace
}  // namespace nestplan::importers
