#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class InspectClusterTest : public Workspace {
 protected:
  std::string text_of(const Json& cluster) const {
    const Outcome outcome = run({"inspect", write_json("c.json", cluster)});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }

  Json json_of(const Json& cluster) const {
    const Outcome outcome = run({"inspect", "--json", write_json("c.json", cluster)});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
};

TEST_F(InspectClusterTest, PlainHierarchy) {
  const std::string text = text_of(small_cluster());
  EXPECT_NE(text.find("  rack (8 devices)\n  └─ 2 × node of 4\n     └─ 4 × d\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("unavailable"), std::string::npos);
  const Json json = json_of(small_cluster());
  EXPECT_EQ(json["places"], 8);
  EXPECT_EQ(json["unavailable"], Json::array());
  EXPECT_EQ(json["network"], "hierarchy");
  EXPECT_EQ(json["types"].size(), 1U);
  EXPECT_EQ(json["types"][0]["count"], 8);
  EXPECT_EQ(json["hosts"]["count"], 2);
  EXPECT_EQ(json["levels"][1]["fanout"], 2);
  EXPECT_EQ(json["levels"][1]["rails"], "none");
}

TEST_F(InspectClusterTest, LimitedHierarchy) {
  Json cluster = small_cluster();
  cluster["network"]["devices"] = 6;
  const std::string text = text_of(cluster);
  EXPECT_NE(text.find("the first 6 of 8"), std::string::npos) << text;
  EXPECT_EQ(json_of(cluster)["levels"][0]["blocks"], 2);
}

/// Three racks, the last one smaller, with hosts, holes and two types of devices.
Json uneven_cluster() {
  const auto level = [](const char* name, const Json& fanout, const char* bandwidth) {
    return Json{{"name", name}, {"fanout", fanout}, {"bandwidth", bandwidth}, {"latency", "1 us"}};
  };
  Json cluster = small_cluster();
  Json rack = level("rack", {6, 6, 2}, "50 GB/s");
  rack["nics"] = 2;
  rack["background"] = 0.1;
  cluster["network"]["levels"] =
      Json::array({level("node", 4, "900 GB/s"), rack, level("spine", 3, "50 GB/s")});
  cluster["hosts"] = "n[01-14]";
  cluster["unavailable"] = {{"hosts", "n03"}, {"devices", {"n05:2"}}};
  Json other = cluster["device"];
  other["name"] = "e";
  other["hosts"] = "n[13-14]";
  cluster["other_devices"] = Json::array({other});
  return cluster;
}

TEST_F(InspectClusterTest, UnevenTree) {
  const std::string text = text_of(uneven_cluster());
  const std::string picture =
      "  spine (51 devices, 5 unavailable)\n"
      "  ├─ rack 0: 6 × node, 19 devices, 5 unavailable\n"
      "  │  ├─ node 0–1: 4 × d each\n"
      "  │  ├─ node 2: 4 unavailable\n"
      "  │  ├─ node 3: 4 × d\n"
      "  │  ├─ node 4: 2 × d, 1 unavailable, 1 × d\n"
      "  │  └─ node 5: 4 × d\n"
      "  ├─ rack 1: 6 × node, 24 devices\n"
      "  │  └─ node 0–5: 4 × d each\n"
      "  └─ rack 2: 2 × node, 8 devices\n"
      "     └─ node 0–1: 4 × e each\n";
  EXPECT_TRUE(text.ends_with(picture)) << text;
  for (const char* line : {"unavailable   5 of 56 places: 8–11, 18\n",
                           "43 × d: ", "8 × e: ", "hosts         14 of 4 devices: n[01-14]\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

TEST_F(InspectClusterTest, UnevenTreeAsJson) {
  const Json json = json_of(uneven_cluster());
  EXPECT_EQ(json["devices"], 51);
  EXPECT_EQ(json["places"], 56);
  EXPECT_EQ(json["unavailable"],
            Json({{{"first", 8}, {"count", 4}}, {{"first", 18}, {"count", 1}}}));
  EXPECT_EQ(json["types"][1]["name"], "e");
  EXPECT_EQ(json["types"][1]["count"], 8);
  EXPECT_EQ(json["hosts"]["list"], "n[01-14]");
  const Json& rack = json["levels"][1];
  EXPECT_EQ(rack["fanout"], Json({6, 6, 2}));
  EXPECT_EQ(rack["devices"], 24);
  EXPECT_EQ(rack["least_devices"], 8);
  EXPECT_EQ(rack["ports"], 2);
  EXPECT_EQ(rack["background"], 0.1);
  EXPECT_EQ(rack["effective_bytes_per_s"], 22.5e9);  // 2 of 4 ports, less a tenth
}

/// A thousand nodes, each second one with a hole: the picture stays short and narrow.
TEST_F(InspectClusterTest, LongPicturesAreCut) {
  Json cluster = uneven_cluster();
  cluster["network"]["levels"][1]["fanout"] = Json::array();
  for (int rack = 0; rack < 100; ++rack) cluster["network"]["levels"][1]["fanout"].push_back(10);
  cluster["network"]["levels"][2]["fanout"] = 100;
  cluster["hosts"] = "n[0001-1000]";
  cluster["other_devices"] = Json::array();
  Json holes = Json::array();
  for (int node = 1; node <= 1000; node += 2 + node % 5) {
    std::string name = std::to_string(node);
    holes.push_back("n" + std::string(4 - name.size(), '0') + name + ":1");
  }
  cluster["unavailable"] = {{"devices", holes}};
  const std::string text = text_of(cluster);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 80) << text;
  EXPECT_NE(text.find("…"), std::string::npos);
}

TEST_F(InspectClusterTest, Torus) {
  Json cluster = small_cluster();
  const auto dimension = [](const char* name, int size, bool wrap) {
    return Json{{"name", name},
                {"size", size},
                {"wrap", wrap},
                {"bandwidth", "45 GB/s"},
                {"latency", "1 us"}};
  };
  cluster["network"] = {
      {"kind", "torus"},
      {"host", {2, 2}},
      {"dimensions", Json::array({dimension("x", 4, true), dimension("y", 2, false)})}};
  cluster["unavailable"] = {{"places", "7"}};
  const std::string text = text_of(cluster);
  EXPECT_TRUE(
      text.ends_with("  4 (wraps) × 2: the host at every place, · where none is available\n"
                     "    0 0 1 1\n"
                     "    0 0 1 ·\n"))
      << text;
  const Json json = json_of(cluster);
  EXPECT_EQ(json["network"], "torus");
  EXPECT_EQ(json["host_box"], Json({2, 2}));
  EXPECT_TRUE(json["cube_box"].is_null());
  EXPECT_EQ(json["dimensions"][0]["wrap"], true);
  EXPECT_EQ(json["hosts"]["count"], 2);
}

TEST_F(InspectClusterTest, ShippedClustersHavePictures) {
  const std::filesystem::path folder = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/clusters";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const Outcome outcome = run({"inspect", entry.path().string()});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
      });
      EXPECT_LE(columns, 120) << line;
    }
  }
}

}  // namespace
}  // namespace nestplan::test
