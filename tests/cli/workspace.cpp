#include "cli/workspace.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace nestplan::test {
namespace {

Json layer(const std::string& id) {
  Json costs;
  for (const int tp : {1, 2}) {
    costs["tp" + std::to_string(tp)] = {{"forward_s", 1e-3 / tp},
                                        {"backward_s", 2e-3 / tp},
                                        {"parameters", 1000000 / tp},
                                        {"activation_bytes", 4000000 / tp},
                                        {"checkpoint_bytes", 1000000}};
  }
  return {{"id", id}, {"costs", costs}};
}

}  // namespace

Json small_graph() {
  Json graph{{"format", "nestplan.graph/1"},
             {"name", "small"},
             {"strategies",
              {{{"id", "tp1"}, {"tp", 1}, {"micro_batch", 1}},
               {{"id", "tp2"}, {"tp", 2}, {"micro_batch", 1}}}},
             {"layers", Json::array()},
             {"edges", Json::array()}};
  for (const char* id : {"a", "b.0", "b.1", "c"}) graph["layers"].push_back(layer(id));
  for (const auto& [from, to] : {std::pair{"a", "b.0"}, {"b.0", "b.1"}, {"b.1", "c"}}) {
    graph["edges"].push_back({{"from", from}, {"to", to}, {"bytes", 1000000}});
  }
  return graph;
}

Json small_cluster() {
  const auto level = [](const char* name, int fanout, const char* bandwidth) {
    return Json{{"name", name}, {"fanout", fanout}, {"bandwidth", bandwidth}, {"latency", "1 us"}};
  };
  return {{"format", "nestplan.cluster/1"},
          {"name", "two-nodes"},
          {"device",
           {{"name", "d"},
            {"memory", "1 GB"},
            {"reserved", "0 B"},
            {"peak", {{"bf16", "100 TFLOP/s"}}},
            {"memory_bandwidth", "1 TB/s"}}},
          {"network",
           {{"kind", "hierarchy"},
            {"collectives", "hierarchical-ring"},
            {"levels", {level("node", 4, "100 GB/s"), level("rack", 2, "10 GB/s")}}}}};
}

void Workspace::SetUp() {
  std::string name = (std::filesystem::temp_directory_path() / "nestplan-cli-XXXXXX").string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  directory_ = name;
  write_json("graph.json", small_graph());
  write_json("cluster.json", small_cluster());
}

void Workspace::TearDown() { std::filesystem::remove_all(directory_); }

std::string Workspace::write(const std::string& name, const std::string& text) const {
  std::ofstream(directory_ / name, std::ios::binary) << text;
  return path(name);
}

std::string Workspace::write_json(const std::string& name, const Json& document) const {
  return write(name, document.dump(1));
}

Outcome Workspace::run(const Words& arguments, const std::string& stdout_file) const {
  return Process(arguments, directory_, stdout_file).wait();
}

Outcome Workspace::run_on(int ranks, const Words& arguments) const {
  return Process(arguments, directory_, "", ranks).wait();
}

Json Workspace::json_on_small(const std::string& command, const Words& more, int exit_code) const {
  Words flags{"--json"};
  flags.insert(flags.end(), more.begin(), more.end());
  const Outcome outcome = run(on_small({command}, flags));
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
  return Json::parse(outcome.out);
}

void Workspace::set_memory(const std::string& memory) const {
  Json cluster = small_cluster();
  cluster["device"]["memory"] = memory;
  write_json("cluster.json", cluster);
}

Words Workspace::on_small(const Words& command, const Words& more) const {
  Words words = command;
  for (const std::string& word :
       {std::string("--graph"), path("graph.json"), std::string("--cluster"), path("cluster.json"),
        std::string("--global-batch"), std::string("16")}) {
    words.push_back(word);
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

testing::AssertionResult is_one_line(const std::string& text) {
  if (std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n') {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "not one line: " << text;
}

}  // namespace nestplan::test
