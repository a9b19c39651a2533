#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "importers/samples.hpp"
#include "importers/traces.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::importers {
namespace {

struct Sample {
  std::string file;
  std::string content;
  Format format;
  Options options;
};

std::vector<Sample> samples() {
  std::vector<Sample> all;
  for (const char* name : {"gpt.onnx", "convnet.onnx", "gpt.fx.json", "encoder.fx.json"}) {
    const std::string content = test::sample(name);
    all.push_back({name, content, detect_format(content, name), {}});
  }
  const std::vector<chakra::Node> trace = test::two_layers();
  all.push_back({"trace.et", test::as_protobuf(trace), Format::kChakra, {}});
  all.push_back({"trace.json", test::as_messages(trace), Format::kChakra, {}});
  return all;
}

/// Reads or is refused in one short line; returns whether it was refused.
bool is_refused(const Sample& sample, const std::string& content) {
  try {
    const Imported imported = test::import(content, sample.file, sample.format, sample.options);
    // what is read is a graph that can be written and read again
    const std::string text = io::graph_to_json(imported.graph);
    EXPECT_EQ(io::graph_to_json(io::parse_graph(text, "g")), text);
    return false;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600U) << message;
    return true;
  }
}

TEST(ImportRobustness, SamplesAreRead) {
  for (const Sample& sample : samples()) EXPECT_FALSE(is_refused(sample, sample.content));
}

TEST(ImportRobustness, CutFilesNeverCrash) {
  for (const Sample& sample : samples()) {
    const auto cuts = static_cast<std::size_t>(testing::seeds(25));
    std::size_t refused = 0;
    for (std::size_t i = 0; i < cuts; ++i) {
      refused += is_refused(sample, sample.content.substr(0, sample.content.size() * i / cuts));
    }
    EXPECT_GT(refused, cuts / 2) << sample.file;
  }
}

std::string damaged(std::string content, testing::Dice& dice) {
  for (auto edits = dice.between(1, 4); edits > 0; --edits) {
    const auto last = static_cast<std::int64_t>(content.size()) - 1;
    const auto at = static_cast<std::size_t>(dice.between(0, last));
    const auto length = static_cast<std::size_t>(dice.between(1, 12));
    switch (dice.between(0, 3)) {
      case 0:
        content[at] = static_cast<char>(dice.between(0, 255));
        break;
      case 1:
        content[at] = static_cast<char>(content[at] ^ (1 << dice.between(0, 7)));
        break;
      case 2:
        if (content.size() > 32) content.erase(at, length);
        break;
      default:
        content.insert(at, content.substr(static_cast<std::size_t>(dice.between(0, last)), length));
    }
  }
  return content;
}

TEST(ImportRobustness, DamagedFilesNeverCrash) {
  for (const Sample& sample : samples()) {
    for (std::uint64_t seed = 0; seed < testing::seeds(60); ++seed) {
      SCOPED_TRACE(sample.file + " seed " + std::to_string(seed));
      testing::Dice dice(seed);
      is_refused(sample, damaged(sample.content, dice));
    }
  }
}

/// Damage where it tells: among names, types and shapes, not in the values of weights.
TEST(ImportRobustness, DamagedStructureNeverCrashes) {
  for (const Sample& sample : samples()) {
    if (sample.format != Format::kOnnx) continue;
    // nodes stand in front of the weights
    const std::size_t structure = sample.content.size() / 2;
    for (std::uint64_t seed = 0; seed < testing::seeds(120); ++seed) {
      SCOPED_TRACE(sample.file + " seed " + std::to_string(seed));
      testing::Dice dice(seed);
      std::string content = sample.content;
      for (auto edits = dice.between(1, 3); edits > 0; --edits) {
        const auto at =
            static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(structure) - 1));
        content[at] = static_cast<char>(content[at] ^ (1 << dice.between(0, 7)));
      }
      is_refused(sample, content);
    }
  }
}

TEST(ImportRobustness, GarbageIsRefused) {
  for (std::uint64_t seed = 0; seed < testing::seeds(50); ++seed) {
    testing::Dice dice(seed);
    std::string garbage;
    for (auto size = dice.between(1, 400); size > 0; --size) {
      garbage += static_cast<char>(dice.between(0, 255));
    }
    for (const Format format : {Format::kOnnx, Format::kFx, Format::kChakra}) {
      EXPECT_TRUE(is_refused({"garbage", "", format, {}}, garbage)) << seed;
    }
  }
}

}  // namespace
}  // namespace nestplan::importers
