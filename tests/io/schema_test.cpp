#include <gtest/gtest.h>

#include <set>

#include "io/samples.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/io/keys.hpp"

namespace nestplan::io {
namespace {

using test::Json;

Json schema(const std::string& name) {
  const std::filesystem::path folder = NESTPLAN_SOURCE_DIR "/inputs/schemas";
  return Json::parse(test::content_of(folder / (name + ".schema.json")));
}

std::set<std::string> strings(const Json& list) {
  std::set<std::string> result;
  for (const Json& item : list) result.insert(item.get<std::string>());
  return result;
}

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> result;
  for (const auto& [key, value] : object.items()) result.insert(key);
  return result;
}

/// The objects with fixed keys that a schema describes, by `$defs` name ("": the document).
std::set<std::string> described_objects(const Json& schema) {
  std::set<std::string> names{""};
  for (const auto& [name, definition] : schema.at("$defs").items()) {
    if (definition.contains("properties")) names.insert(name);
  }
  return names;
}

void expect_same_keys(const Json& schema, const std::string& format) {
  std::set<std::string> checked;
  for (const KeySet& keys : known_keys(format)) {
    SCOPED_TRACE(format + " " + keys.name);
    checked.insert(keys.name);
    const Json& object = keys.name.empty() ? schema : schema.at("$defs").at(keys.name);
    std::set<std::string> known(keys.required.begin(), keys.required.end());
    EXPECT_EQ(strings(object.value("required", Json::array())), known);
    known.insert(keys.optional.begin(), keys.optional.end());
    EXPECT_EQ(keys_of(object.at("properties")), known);
  }
  EXPECT_EQ(described_objects(schema), checked);
  EXPECT_EQ(schema.at("properties").at("format").at("const"), format);
}

TEST(Schemas, HaveTheKeysOfTheReaders) {
  expect_same_keys(schema("graph"), kGraphFormat);
  expect_same_keys(schema("cluster"), kClusterFormat);
  expect_same_keys(schema("plan"), kPlanFormat);
  expect_same_keys(schema("device"), kDeviceFormat);
  expect_same_keys(schema("fx"), kFxFormat);
}

void expect_known_peaks(const Json& node, int& found) {
  if (node.is_object() && node.contains("propertyNames") &&
      node["propertyNames"].contains("enum")) {
    ++found;
    EXPECT_EQ(node["propertyNames"]["enum"], Json(cost::peak_names()));
  }
  if (!node.is_structured()) return;
  for (const Json& child : node) expect_known_peaks(child, found);
}

TEST(Schemas, HaveThePrecisionsOfThePeaks) {
  int found = 0;
  expect_known_peaks(schema("cluster"), found);
  EXPECT_EQ(found, 3);
  expect_known_peaks(schema("device"), found);
  EXPECT_EQ(found, 4);
}

/// Every object with fixed keys is closed, and every reference leads somewhere.
void expect_strict(const Json& node, const Json& root, int& objects) {
  if (node.is_object() && node.contains("properties")) {
    ++objects;
    EXPECT_EQ(node.value("additionalProperties", Json()), Json(false)) << node.dump().substr(0, 99);
  }
  if (node.is_object() && node.contains("$ref")) {
    const std::string reference = node["$ref"].get<std::string>();
    EXPECT_TRUE(root.contains(Json::json_pointer(reference.substr(1)))) << reference;
  }
  if (node.is_structured()) {
    for (const Json& child : node) expect_strict(child, root, objects);
  }
}

TEST(Schemas, AreStrict) {
  for (const char* name : {"graph", "cluster", "plan", "batch", "device", "fx"}) {
    SCOPED_TRACE(name);
    const Json root = schema(name);
    int objects = 0;
    expect_strict(root, root, objects);
    EXPECT_GE(objects, 2);
    EXPECT_EQ(root.at("$schema"), "https://json-schema.org/draft/2020-12/schema");
  }
}

}  // namespace
}  // namespace nestplan::io
