#include <gtest/gtest.h>

#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

const std::string kData = NESTPLAN_SOURCE_DIR "/tests/importers/data/";
const std::string kCluster = NESTPLAN_SOURCE_DIR "/inputs/clusters/h100-16384.json";

class ImportCommand : public Workspace {
 protected:
  Outcome import(const std::string& file, const Words& more = {}) const {
    Words words{"import", file, "--cluster", kCluster};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(ImportCommand, WhatItWritesIsPlanned) {
  const std::string graph = path("gpt.json");
  const Outcome outcome =
      import(kData + "gpt.onnx", {"--tp", "1,2", "--micro-batch", "1,2", "-o", graph});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, "6 layers, 5 edges, 7 downsets, 4 strategies")) << outcome.err;
  const Outcome plan = run({"plan", "--graph", graph, "--cluster", path("cluster.json"),
                            "--global-batch", "16", "--json"});
  ASSERT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_EQ(Json::parse(plan.out)["status"], "optimal");
}

TEST_F(ImportCommand, WritesToStdoutAndKeepsQuiet) {
  const Outcome outcome = import(kData + "llama.fx.json", {"-q", "--granularity", "operator"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(Json::parse(outcome.out)["format"], "nestplan.graph/1");
  EXPECT_GT(Json::parse(outcome.out)["layers"].size(), 20U);
}

TEST_F(ImportCommand, BadUsageIsOneLine) {
  const auto refused = [&](const Outcome& outcome, const std::string& says) {
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_TRUE(has(outcome.err, says)) << outcome.err;
  };
  refused(run({"import", kData + "gpt.onnx"}), "--cluster or --device");
  refused(run({"import", "--cluster", kCluster}), "one model or trace");
  refused(import(kData + "gpt.onx"), "did you mean");
  refused(import(kData + "gpt.onnx", {"--format", "onx"}), "--format");
  refused(import(kData + "gpt.onnx", {"--granularity", "layer"}), "--granularity");
  refused(import(kData + "gpt.onnx", {"--dim", "seq"}), "--dim");
  refused(import(kData + "gpt.onnx", {"--dim", "seq=8,seq=9"}), "given twice");
  refused(import(kData + "gpt.onnx", {"--unknown", "ignore"}), "--unknown");
  refused(import(kData + "gpt.fx.json", {"--dim", "seq=8"}), "--dim");
  refused(import(kData + "gpt.fx.json", {"--format", "onnx"}), "is not an ONNX model");
  refused(import(kData + "gpt.onnx", {"--device", "x.json"}), "exclude each other");
}

const char* const kTrace =
    R"({"version": "0.0.4"}{"id": "1", "name": "a_FWD", "type": "COMP_NODE",
        "durationMicros": "10", "attr": [{"name": "tensor_size", "int64Val": "64"}]})";

TEST_F(ImportCommand, FlagsWithoutEffectAreRefused) {
  const std::string trace = write("trace.json", kTrace);
  const auto refused = [&](const std::string& file, const Words& more, const std::string& says) {
    Words words{"import", file};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << says;
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_TRUE(has(outcome.err, says)) << outcome.err;
  };
  const std::string models = ": has no effect on a file of the format chakra, only on onnx and fx";
  refused(trace, {"--unknown", "memory-bound"}, "--unknown" + models);
  refused(trace, {"--attention", "fused"}, "--attention" + models);
  refused(trace, {"--cluster", kCluster}, "--cluster" + models);
  refused(trace, {"--device", "x.json"}, "--device" + models);
  refused(trace, {"--dim", "seq=8"}, "--dim: has no effect");
  refused(kData + "gpt.fx.json", {"--dim", "seq=8"},
          "--dim: has no effect on a file of the format fx, only on onnx");
  refused(kData + "gpt.onnx", {"--tensor-bytes", "1 MB"},
          "--tensor-bytes: has no effect on a file of the format onnx, only on chakra");
}

TEST_F(ImportCommand, WhatIsImportedIsNotOverwritten) {
  const std::string trace = write("trace.json", kTrace);
  const Outcome outcome = run({"import", trace, "-o", trace});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(is_one_line(outcome.err));
  EXPECT_TRUE(has(outcome.err, "what is imported")) << outcome.err;
  EXPECT_EQ(run({"import", trace}).exit_code, 0);
}

TEST_F(ImportCommand, TracesNeedNoDevice) {
  const std::string trace = write("trace.json", kTrace);
  const Outcome outcome = run({"import", trace});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "nestplan: 1 layer, 0 edges, 2 downsets, 1 strategy;"));
  EXPECT_TRUE(has(outcome.err, "no backward pass"));
  EXPECT_EQ(Json::parse(outcome.out)["layers"][0]["id"], "a");
}

}  // namespace
}  // namespace nestplan::test
