#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/process.hpp"

namespace nestplan::test {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

/// A small chain of four layers with tp 1 and 2, micro-batch 1.
Json small_graph();

/// Eight devices in two nodes, with room for the small graph.
Json small_cluster();

/// Tests that run nestplan in a directory of their own, with a graph and a cluster in it.
class Workspace : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const;
  std::string write_json(const std::string& name, const Json& document) const;

  Outcome run(const Words& arguments, const std::string& stdout_file = "") const;

  /// Under mpirun. Its own words come after those of nestplan on stderr.
  Outcome run_on(int ranks, const Words& arguments) const;

  /// `command` on the workspace's graph and cluster with a batch of 16, and `more`.
  Words on_small(const Words& command, const Words& more = {}) const;

  /// What `command` prints as JSON on the graph and cluster, with `more`.
  Json json_on_small(const std::string& command, const Words& more, int exit_code) const;

  /// Gives the devices of the cluster so much memory.
  void set_memory(const std::string& memory) const;

  std::filesystem::path directory_;
};

/// One line, ended.
testing::AssertionResult is_one_line(const std::string& text);

}  // namespace nestplan::test
