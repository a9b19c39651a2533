#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "facts/table.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::facts {
namespace {

using Json = nlohmann::json;

constexpr double kMostMedian = 0.15;
constexpr double kMostMedianOfLarge = 0.06;  ///< of buffers of 1 GiB and more
constexpr double kLargeBytes = 1073741824;

/// A hop over EFA, as the tuner of the plugin between NCCL and libfabric has it (aws-ofi-nccl,
/// OFI_NCCL_TUNER_NET_LATENCY).
constexpr double kEfaSeconds = 20e-6;

Json read_json(const char* name) {
  std::ifstream in(*directory() / name);
  return Json::parse(in);
}

/// A row's fabric, in the words of the tables of accelerators and clusters.
struct Fabric {
  std::string accelerator;
  std::string cluster;   ///< of several nodes
  double port_gbps = 0;  ///< instead of all links of the accelerator
  std::string left_out;  ///< why there is none
};

Fabric fabric_of(const Row& row) {
  const std::string& system = row.text("system");
  const std::string& algorithm = row.text("algorithm");
  const auto named = [&](const char* part) { return system.find(part) != std::string::npos; };
  if (algorithm == "nvlstree") return {"", "", 0, "not the fastest algorithm, asked for by name"};
  if (!row.says("bytes")) return {"", "", 0, "fabric and bytes are not stated"};
  if (named("A100")) return {"A100 SXM 80GB", "", 0, ""};
  if (named("B200")) return {"B200 SXM", "aws-p6-b200", 0, ""};
  if (named("p5en")) return {"H200 SXM", "aws-p5en", 0, ""};
  if (named("H200")) return {"H200 SXM", "", 0, ""};
  if (named("H100")) return {"H100 SXM 80GB", "", 0, ""};
  // No switch: two of them have one of their seven links.
  if (named("MI300X")) return {"MI300X", "", row.count("ranks", 0) == 2 ? 64.0 : 0.0, ""};
  return {"", "", 0, "fabric is not stated"};
}

class Fabrics {
 public:
  Fabrics() {
    for (const Json& entry : read_json("accelerators.json")) {
      if (entry.at("intra_node_unidir_gbps_per_device").is_number()) {
        link_gbps_[entry.at("name")] = entry.at("intra_node_unidir_gbps_per_device");
      }
    }
    const Json networks = read_json("networks.json");
    for (const Json& entry : networks.at("clusters")) clusters_[entry.at("id")] = entry;
    link_latency_us_ = networks.at("nccl_tuner_latencies").at("new").at("nvlink").at("ring").at(0);
  }

  model::Cluster cluster(const Fabric& fabric, const Row& row) const {
    const std::int64_t nodes = row.count("nodes", 1);
    const std::string& algorithm = row.text("algorithm");
    model::NetworkLevel node;
    node.name = "node";
    node.fanout = row.count("ranks", 1) / nodes;
    node.bandwidth =
        1e9 * (fabric.port_gbps > 0 ? fabric.port_gbps : link_gbps_.at(fabric.accelerator));
    node.latency_s = 1e-6 * link_latency_us_;
    // NVSwitch reduces from the third generation on, that of Hopper.
    node.in_network_reduction = fabric.accelerator != "A100 SXM 80GB" &&
                                fabric.accelerator != "MI300X" && algorithm.rfind("ring", 0) != 0;
    model::HierarchySpec spec;
    spec.collectives = "auto";
    spec.levels.push_back(node);
    if (nodes > 1) {
      const Json& level = clusters_.at(fabric.cluster).at("levels").at(1);
      const double gbps = level.at("bw_per_device_unidir_gbps");
      spec.levels.push_back({level.at("name"), nodes, 1e9 * gbps, kEfaSeconds, 1});
    }
    model::Cluster cluster;
    cluster.network = spec;
    return cluster;
  }

 private:
  std::map<std::string, double> link_gbps_;
  std::map<std::string, Json> clusters_;
  double link_latency_us_ = 0;
};

model::CollectiveOp op_of(const std::string& name) {
  if (name == "all_reduce") return model::CollectiveOp::kAllReduce;
  if (name == "all_gather") return model::CollectiveOp::kAllGather;
  return model::CollectiveOp::kReduceScatter;
}

/// As nccl-tests count it: busbw = bytes / time · 2(n-1)/n, half of that but for all_reduce.
double measured_s(const Row& row) {
  if (const auto time_us = row.number("time_us")) return 1e-6 * *time_us;
  const auto ranks = static_cast<double>(row.count("ranks", 1));
  const double passes = row.text("collective") == "all_reduce" ? 2 : 1;
  return *row.number("bytes") * passes * (ranks - 1) / ranks / (1e9 * *row.number("busbw_gbps"));
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(CollectivesFacts, PredictionsBesideMeasuredCurves) {
  if (!directory()) GTEST_SKIP() << "there are no published facts beside the checkout";
  const Fabrics fabrics;
  std::map<std::string, std::vector<double>> of_curve;
  std::vector<double> all, large;
  for (const Row& row : read_table(*directory() / "collectives.csv")) {
    const Fabric fabric = fabric_of(row);
    const std::string curve =
        row.text("system") + ", " + row.text("nodes") + " nodes, " + row.text("algorithm");
    if (!fabric.left_out.empty()) {
      std::printf("%-70s left out: %s\n", curve.c_str(), fabric.left_out.c_str());
      continue;
    }
    const auto network = network::make_network(fabrics.cluster(fabric, row));
    std::vector<std::int64_t> members;
    for (std::int64_t x = 0; x < network->devices(); ++x) members.push_back(x);
    const double bytes = *row.number("bytes");
    const double predicted =
        network->collective_s(op_of(row.text("collective")), bytes, network->shape(members));
    const double error = predicted / measured_s(row) - 1;
    std::printf("%-70s %2d %11.0f B measured %10.1f us  predicted %10.1f us  %+6.1f %%\n",
                curve.c_str(), static_cast<int>(members.size()), bytes, 1e6 * measured_s(row),
                1e6 * predicted, 100 * error);
    of_curve[curve].push_back(std::abs(error));
    all.push_back(std::abs(error));
    if (bytes >= kLargeBytes) large.push_back(std::abs(error));
  }
  for (const auto& [curve, errors] : of_curve) {
    std::printf("%-70s %3zu rows   median %5.1f %%\n", curve.c_str(), errors.size(),
                100 * median(errors));
  }
  ASSERT_FALSE(large.empty());
  std::printf("%-70s %3zu rows   median %5.1f %%\n", "1 GiB and more", large.size(),
              100 * median(large));
  std::printf("%-70s %3zu rows   median %5.1f %%\n", "all", all.size(), 100 * median(all));
  EXPECT_LE(median(all), kMostMedian);
  EXPECT_LE(median(large), kMostMedianOfLarge);
}

}  // namespace
}  // namespace nestplan::facts
