#include "io/json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::message_of;

std::string parse_error(const std::string& text) {
  return message_of([&] { Document(text, "f.json"); });
}

TEST(Json, SyntaxErrorsHaveLineAndColumn) {
  expect_contains(parse_error("{\"a\": 1,\n  \"b\": x}"), "f.json: b: line 2, column 8: ");
  expect_contains(parse_error("{\"ü\": y}"), "line 1, column 7: ");
  expect_contains(parse_error("{\"a\": 1} x"), "line 1, column 10: ");
  expect_contains(parse_error("{\"a\": [1, 2"), "unexpected end of input");
  expect_contains(parse_error("{\"a\": 1, // no\n}"), "line 1, column 10: ");
  expect_contains(parse_error("{\"a\": [1,]}"), "f.json: a[1]: line 1");
}

TEST(Json, DuplicateKeysAreErrorsWithTheirPlace) {
  EXPECT_EQ(parse_error(R"({"a": 1, "a": 2})"), "f.json: duplicate key \"a\"");
  EXPECT_EQ(parse_error(R"({"a": [1, {"b": {"c": 1, "d": {}, "c": 2}}]})"),
            "f.json: a[1].b: duplicate key \"c\"");
  EXPECT_EQ(parse_error(R"({"a": [{}, {"b": 1, "b": 1}]})"), "f.json: a[1]: duplicate key \"b\"");
}

TEST(Json, NumbersMustBeFinite) {
  expect_contains(parse_error(R"({"x": {"y": [1, 1e999]}})"), "f.json: x.y[1]: line 1, column 17");
  expect_contains(parse_error(R"({"x": 1e999})"), "too large");
  expect_contains(parse_error(R"({"x": -1e999})"), "too large");
  expect_contains(parse_error("{\"x\": 1" + std::string(100'000, '0') + "}"), "too large");
  expect_contains(parse_error(R"({"x": NaN})"), "f.json: x: line 1, column 7: NaN and infinity");
  expect_contains(parse_error(R"({"x": Infinity})"), "NaN and infinity");
  expect_contains(parse_error(R"({"x": -Infinity})"), "NaN and infinity");
}

TEST(Json, DeepNestingIsOneShortError) {
  std::string lists = "{\"a\": ", objects;
  for (int i = 0; i < 5'000'000; ++i) lists += '[';
  expect_contains(parse_error(lists), "nested deeper than 64");
  for (int i = 0; i < 1'000'000; ++i) objects += "{\"a\":";
  expect_contains(parse_error(objects), "nested deeper than 64");
}

TEST(Json, GarbageIsOneShortError) {
  std::string noise(10'000'000, '\0');
  unsigned state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24U);
  noise[0] = 'x';
  expect_contains(parse_error(noise), "not a JSON object");
  expect_contains(parse_error("{" + noise), "line 1, column 2");
  expect_contains(parse_error("{\"" + noise), "line 1");
  expect_contains(parse_error("{\"a\": \"" + std::string(10'000'000, 'a')),
                  "missing closing quote");
  expect_contains(parse_error("\x89HDF\r\n\x1a\n"), "not a JSON object");
  expect_contains(parse_error("{\"a\": \"\xff\"}"), "UTF-8");
  expect_contains(parse_error("\xff\xfe{"), "not a JSON object");
}

TEST(Json, EmptyTextAndOtherRoots) {
  EXPECT_EQ(parse_error(""), "f.json: is empty");
  EXPECT_EQ(parse_error(" \n\t\r\n"), "f.json: is empty");
  EXPECT_EQ(parse_error("\xEF\xBB\xBF"), "f.json: is empty");
  expect_contains(parse_error("[1]"), "not a JSON object");
  expect_contains(parse_error("null"), "not a JSON object");
}

TEST(Json, ByteOrderMarkIsSkipped) {
  EXPECT_EQ(Document("\xEF\xBB\xBF{\"a\": 2}", "f").root().at("a").integer(0, 5), 2);
}

TEST(Json, FilesThatCannotBeReadNameTheNearestThatCan) {
  const test::TemporaryDirectory directory;
  expect_contains(message_of([&] { read_text(directory.path()); }), "is a directory");
  expect_contains(message_of([&] { read_text(directory / "missing.json"); }),
                  "missing.json: cannot be read: No such file");
  test::write(directory / "cluster-64.json", "{}");
  std::filesystem::create_symlink("nowhere", directory / "dangling");
  expect_contains(message_of([&] { read_text(directory / "cluster-46.json"); }),
                  "/cluster-64.json\"?)");
  expect_contains(message_of([&] { read_text(directory / "cluster-64.jso/graph.json"); }),
                  "/cluster-64.json\"?)");
  EXPECT_EQ(message_of([&] { read_text(directory / "dangling"); }).find("did you mean"),
            std::string::npos);
  test::write(directory / "empty", "");
  EXPECT_EQ(read_text(directory / "empty"), "");
}

TEST(Field, IntegersAreWholeAndInRange) {
  const Document document(R"({"two": 2.0, "half": 0.5, "big": 18446744073709551615, "neg": -1,
                              "text": "2", "huge": 1e300})",
                          "f");
  const Field root = document.root();
  EXPECT_EQ(root.at("two").integer(0, 10), 2);
  expect_contains(message_of([&] { root.at("half").integer(0, 10); }), "f: half: must be a whole");
  expect_contains(message_of([&] { root.at("big").integer(0, 10); }), "at most 10");
  expect_contains(message_of([&] { root.at("huge").integer(0, 10); }), "at most 10");
  expect_contains(message_of([&] { root.at("neg").integer(1, 10); }), "at least 1, but is -1");
  expect_contains(message_of([&] { root.at("text").integer(1, 10); }), "not the text \"2\"");
}

TEST(Field, NumbersAreNotNegative) {
  const Document document(R"({"minus": -0.5, "zero": -0.0, "list": [], "large": 1e10})", "f");
  expect_contains(message_of([&] { document.root().at("minus").number(1); }), "negative");
  EXPECT_FALSE(std::signbit(document.root().at("zero").number(1)));
  expect_contains(message_of([&] { document.root().at("list").number(1); }), "not a list");
  expect_contains(message_of([&] { document.root().at("large").number(1e9); }), "at most 1e+09");
}

TEST(Field, PathsQuoteKeysThatAreNotPlain) {
  const Document document(R"({"a b": [{"c.d": true}]})", "f");
  const Field field = document.root().at("a b").items()[0].at("c.d");
  EXPECT_EQ(field.path(), R"(["a b"][0]["c.d"])");
}

TEST(Numbers, RoundTripExactly) {
  for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.0, 0.0,
                             9007199254740993.0, 2.5e-6, 1e22}) {
    EXPECT_EQ(Json::parse(number_to_json(value).dump()).get<double>(), value);
  }
  EXPECT_EQ(number_to_json(80e9).dump(), "80000000000");
  EXPECT_THROW(number_to_json(std::numeric_limits<double>::infinity()), InternalError);
  EXPECT_THROW(number_to_json(std::numeric_limits<double>::quiet_NaN()), InternalError);
}

}  // namespace
}  // namespace nestplan::io
