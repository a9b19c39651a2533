#include <gtest/gtest.h>

#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

/// One file of an otherwise good command is spoilt.
struct BadFile {
  const char* name;
  const char* file;  ///< "graph.json" or "cluster.json"
  void (*spoil)(Json& document);
  const char* says;
};

class BadInputTest : public Workspace {
 protected:
  void expect_refused(const std::string& file, const std::string& says) const {
    const Outcome outcome = run(on_small({"plan"}, {"-o", path("plan.json")}));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_LT(outcome.err.size(), 1000U);
    EXPECT_NE(outcome.err.find(path(file) + ": "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(path("plan.json")));
  }
};

class BadFileTest : public BadInputTest, public testing::WithParamInterface<BadFile> {};

TEST_P(BadFileTest, IsRefusedByFileAndField) {
  const BadFile& bad = GetParam();
  Json document = std::string(bad.file) == "graph.json" ? small_graph() : small_cluster();
  bad.spoil(document);
  write_json(bad.file, document);
  expect_refused(bad.file, bad.says);
}

constexpr const char* kGraph = "graph.json";
constexpr const char* kCluster = "cluster.json";

INSTANTIATE_TEST_SUITE_P(
    Files, BadFileTest,
    testing::Values(
        BadFile{"unit_missing", kCluster, [](Json& c) { c["device"]["memory"] = 80; }, "memory"},
        BadFile{"unit_wrong", kCluster, [](Json& c) { c["device"]["memory"] = "80 GB/s"; },
                "memory"},
        BadFile{"unit_unknown", kCluster,
                [](Json& c) { c["network"]["levels"][0]["bandwidth"] = "9 GBps"; }, "GB/s"},
        BadFile{"cluster_key", kCluster, [](Json& c) { c["devise"] = 1; }, "device"},
        BadFile{"level_key", kCluster, [](Json& c) { c["network"]["levels"][0]["fan_out"] = 8; },
                "fanout"},
        BadFile{"fanout_zero", kCluster, [](Json& c) { c["network"]["levels"][0]["fanout"] = 0; },
                "fanout"},
        BadFile{"oversubscription", kCluster,
                [](Json& c) { c["network"]["levels"][0]["oversubscription"] = 0.5; },
                "oversubscription"},
        BadFile{"no_levels", kCluster, [](Json& c) { c["network"]["levels"] = Json::array(); },
                "levels"},
        BadFile{"collectives", kCluster, [](Json& c) { c["network"]["collectives"] = "magic"; },
                "magic"},
        BadFile{"graph_key", kGraph, [](Json& g) { g["layres"] = 1; }, "layers"},
        BadFile{"cost_key", kGraph, [](Json& g) { g["layers"][0]["costs"]["tp1"]["forward"] = 1; },
                "forward_s"},
        BadFile{"cycle", kGraph,
                [](Json& g) {
                  g["edges"].push_back({{"from", "c"}, {"to", "a"}, {"bytes", 1}});
                },
                "cycle"},
        BadFile{"dangling_edge", kGraph, [](Json& g) { g["edges"][0]["to"] = "b.7"; }, "b.7"},
        BadFile{"doubled_layer", kGraph, [](Json& g) { g["layers"][1]["id"] = "a"; }, "\"a\""},
        BadFile{"doubled_edge", kGraph, [](Json& g) { g["edges"].push_back(g["edges"][0]); },
                "edges"},
        BadFile{"doubled_strategy", kGraph, [](Json& g) { g["strategies"][1]["id"] = "tp1"; },
                "tp1"},
        BadFile{"negative_time", kGraph,
                [](Json& g) { g["layers"][0]["costs"]["tp1"]["forward_s"] = -1; }, "forward_s"},
        BadFile{"text_for_number", kGraph,
                [](Json& g) { g["layers"][0]["costs"]["tp1"]["parameters"] = "1"; }, "parameters"},
        BadFile{"empty_graph", kGraph,
                [](Json& g) {
                  g["layers"] = Json::array();
                  g["edges"] = Json::array();
                },
                "layers"},
        BadFile{"edge_without_bytes", kGraph,
                [](Json& g) {
                  g["edges"][0]["bytes"] = {{"tp1", 1}};
                },
                "bytes"},
        BadFile{"format", kGraph, [](Json& g) { g["format"] = "nestplan.graph/2"; }, "format"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(BadInputTest, NonFiniteNumbers) {
  for (const char* number : {"NaN", "Infinity", "1e999"}) {
    std::string text = small_graph().dump();
    const std::size_t at = text.find("0.001");
    ASSERT_NE(at, std::string::npos);
    write("graph.json", text.replace(at, 5, number));
    expect_refused("graph.json", "");
  }
}

TEST_F(BadInputTest, GarbageOfTenMegabytes) {
  std::string garbage(10'000'000, '\0');
  unsigned state = 1;
  for (char& c : garbage) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24U);
  }
  write("graph.json", garbage);
  expect_refused("graph.json", "");
}

TEST_F(BadInputTest, DeepNesting) {
  write("graph.json", std::string(1'000'000, '['));
  expect_refused("graph.json", "");
}

TEST_F(BadInputTest, CutFile) {
  const std::string text = small_graph().dump();
  write("graph.json", text.substr(0, text.size() / 2));
  expect_refused("graph.json", "");
}

TEST_F(BadInputTest, MissingFileNamesTheNearest) {
  std::filesystem::rename(path("graph.json"), path("graphs.json"));
  expect_refused("graph.json", "(did you mean \"" + path("graphs.json") + "\"?)");
}

TEST_F(BadInputTest, DirectoryForAFile) {
  std::filesystem::remove(path("graph.json"));
  std::filesystem::create_directory(path("graph.json"));
  expect_refused("graph.json", "directory");
}

TEST_F(BadInputTest, NamesCannotBreakTheLine) {
  const Outcome outcome = run({"plan", "--graph", path("a\n\x1b[31m\xff"), "--cluster",
                               path("cluster.json"), "--global-batch", "1"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(is_one_line(outcome.err));
  EXPECT_NE(outcome.err.find("a\\n\\x1b[31m\\xff"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace nestplan::test
