#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

using test::Json;
using Reader = std::function<void(const std::string&)>;

struct Sample {
  std::string name;
  Json document;
  Reader read;
};

std::vector<Sample> samples() {
  return {{"cluster", test::sample_cluster(),
           [](const std::string& text) { parse_cluster(text, "f"); }},
          {"graph", test::sample_graph(), [](const std::string& text) { parse_graph(text, "f"); }},
          {"plan", test::sample_plan(), [](const std::string& text) {
             parse_plan(text, "f", parse_graph(test::sample_graph().dump(), "g"));
           }}};
}

/// Reads or is refused in one short line; returns whether it was refused.
bool is_refused(const Reader& read, const std::string& text) {
  try {
    read(text);
    return false;
  } catch (const InvalidInput& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 600U) << message;
    EXPECT_TRUE(message.starts_with("f: ")) << message;
    return true;
  }
}

/// JSON pointers of all values of a document.
std::set<std::string> pointers(const Json& document) {
  std::set<std::string> result;
  const Json flat = document.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (std::string p = pointer; !p.empty(); p.erase(p.rfind('/'))) result.insert(p);
  }
  return result;
}

TEST(Robustness, NoFieldTakesAnyType) {
  const std::vector<Json> values{nullptr, -1, "\n\x1b", Json::array({Json::array()}),
                                 Json{{"no such key", 1}}};
  for (const Sample& sample : samples()) {
    for (const std::string& pointer : pointers(sample.document)) {
      for (const Json& value : values) {
        Json document = sample.document;
        document[Json::json_pointer(pointer)] = value;
        const bool free_text =
            value.is_string() && (pointer.ends_with("/name") || pointer == "/network/collectives");
        EXPECT_EQ(is_refused(sample.read, document.dump()), !free_text)
            << sample.name << " " << pointer << " " << value.dump();
      }
    }
  }
}

TEST(Robustness, EveryPrefixIsRefused) {
  for (const Sample& sample : samples()) {
    const std::string text = sample.document.dump();
    for (std::size_t length = 0; length < text.size(); ++length) {
      EXPECT_TRUE(is_refused(sample.read, text.substr(0, length))) << sample.name << " " << length;
    }
  }
}

TEST(Robustness, DamagedBytesNeverCrash) {
  std::mt19937 random(7);
  for (const Sample& sample : samples()) {
    const std::string text = sample.document.dump();
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
      std::string damaged = text;
      for (auto edits = 1 + random() % 3; edits > 0; --edits) {
        const std::size_t at = random() % damaged.size();
        switch (random() % 3) {
          case 0:
            damaged[at] = static_cast<char>(random());
            break;
          case 1:
            damaged.erase(at, 1 + random() % 8);
            break;
          default:
            damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 16));
        }
        if (damaged.empty()) damaged = text;
      }
      refused += is_refused(sample.read, damaged) ? 1 : 0;
    }
    EXPECT_GT(refused, 2000) << sample.name;
  }
}

}  // namespace
}  // namespace nestplan::io
