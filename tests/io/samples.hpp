#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace nestplan::test {

using Json = nlohmann::json;

/// A valid cluster of 16 devices.
inline Json sample_cluster() {
  return Json::parse(R"({
    "format": "nestplan.cluster/1", "name": "small",
    "device": {"name": "gpu", "memory": "80 GB", "reserved": "2 GiB",
               "peak": {"bf16": "989 TFLOP/s"}, "memory_bandwidth": "3.35 TB/s"},
    "network": {"kind": "hierarchy", "collectives": "hierarchical-ring", "levels": [
      {"name": "node", "fanout": 8, "bandwidth": "450 GB/s", "latency": "1 us"},
      {"name": "leaf", "fanout": 2, "bandwidth": "400 Gb/s", "latency": "5 us",
       "oversubscription": 2}]}})");
}

/// A valid graph of three layers with a skip edge; "head" cannot use tp2.
inline Json sample_graph() {
  return Json::parse(R"({
    "format": "nestplan.graph/1", "name": "toy",
    "strategies": [{"id": "tp1", "tp": 1}, {"id": "tp2", "tp": 2, "micro_batch": 1}],
    "layers": [
      {"id": "embed", "costs": {
        "tp1": {"forward_s": 0.1, "backward_s": 0.2, "parameters": 100, "activation_bytes": 50},
        "tp2": {"forward_s": 0.05, "backward_s": 0.1, "parameters": 50, "activation_bytes": 25,
                "checkpoint_bytes": 7, "expert_parameters": 3,
                "collectives": [
                  {"phase": "backward", "op": "all_gather", "group": "ep", "bytes": 9}]}}},
      {"id": "block", "costs": {
        "tp1": {"forward_s": 0.1, "backward_s": 0.2, "parameters": 100, "activation_bytes": 50},
        "tp2": {"forward_s": 0.05, "backward_s": 0.1, "parameters": 50, "activation_bytes": 25}}},
      {"id": "head", "costs": {
        "tp1": {"forward_s": 0.1, "backward_s": 0.2, "parameters": 100, "activation_bytes": 50},
        "tp2": {}}}],
    "edges": [{"from": "embed", "to": "block", "bytes": {"tp1": 10, "tp2": 20}},
              {"from": "block", "to": "head", "bytes": 30},
              {"from": "embed", "to": "head", "bytes": 5}]})");
}

/// A valid plan by hand for `sample_graph`.
inline Json sample_plan() {
  return Json::parse(R"({
    "format": "nestplan.plan/1",
    "strategy": {"dp": 4, "dp_inner": 2, "dp_outer": 2, "pp": 2, "vpp": 1, "micro_batch": 1,
                 "microbatches": 8, "schedule": "gpipe"},
    "stages": [
      {"layers": ["block", "embed"], "strategy": "tp2", "tp": 2, "cp": 1, "ep": 1, "position": 0,
       "devices": 4, "recompute": "full", "zero": 1},
      {"layers": ["head"], "strategy": "tp1"}]})");
}

/// A new directory that goes when the object does.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "nestplan-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
    path_ = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace nestplan::test
