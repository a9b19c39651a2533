#include <gtest/gtest.h>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::message_of;

class DetectFormat : public ::testing::Test {
 protected:
  std::string detect(const std::string& content) const {
    test::write(directory_ / "f.json", content);
    return detect_format(directory_ / "f.json");
  }

  test::TemporaryDirectory directory_;
};

TEST_F(DetectFormat, KnowsOurFiles) {
  EXPECT_EQ(detect(test::sample_cluster().dump()), "nestplan.cluster/1");
  EXPECT_EQ(detect(test::sample_graph().dump()), "nestplan.graph/1");
  EXPECT_EQ(detect(test::sample_plan().dump()), "nestplan.plan/1");
  EXPECT_EQ(detect(R"({"format": "nestplan.batch/1"})"), "nestplan.batch/1");
  EXPECT_EQ(detect(R"({"model_type": "llama"})"), "huggingface");
  EXPECT_EQ(detect(R"({"architectures": ["LlamaForCausalLM"]})"), "huggingface");
}

TEST_F(DetectFormat, RefusesOthers) {
  expect_contains(
      message_of([&] { detect(R"({"format": "nestplan.grahp/1"})"); }),
      "format: unknown format \"nestplan.grahp/1\" (did you mean \"nestplan.graph/1\"?)");
  expect_contains(message_of([&] { detect("{}"); }), "f.json: has neither \"format\"");
  expect_contains(message_of([&] { detect(R"({"format": 7})"); }), "format: must be text");
  expect_contains(message_of([&] { detect(""); }), "f.json: is empty");
  message_of([&] { detect_format(directory_ / "missing"); });
}

}  // namespace
}  // namespace nestplan::io
