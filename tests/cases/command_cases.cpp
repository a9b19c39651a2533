#include "cases/command_cases.hpp"

#include <utility>

namespace nestplan::cases {

Json CommandCase::cluster(const std::vector<std::pair<int, std::string>>& levels,
                          const std::string& memory) const {
  Json document{{"format", "nestplan.cluster/1"},
                {"name", "machine"},
                {"device",
                 {{"name", "d"},
                  {"memory", memory},
                  {"peak", {{"bf16", "900 TFLOP/s"}, {"fp8", "1800 TFLOP/s"}}},
                  {"memory_bandwidth", "3 TB/s"}}},
                {"network", {{"kind", "hierarchy"}, {"levels", Json::array()}}}};
  for (const auto& [fanout, bandwidth] : levels) {
    document["network"]["levels"].push_back(
        {{"fanout", fanout}, {"bandwidth", bandwidth}, {"latency", "1 us"}});
  }
  return document;
}

Json CommandCase::llama(int layers, int hidden, int heads, int vocabulary) const {
  return {{"model_type", "llama"},        {"num_hidden_layers", layers},
          {"hidden_size", hidden},        {"num_attention_heads", heads},
          {"num_key_value_heads", heads}, {"intermediate_size", 4 * hidden},
          {"vocab_size", vocabulary},     {"max_position_embeddings", 8192},
          {"tie_word_embeddings", false}};
}

Json CommandCase::mixture(int experts) const {
  Json config = llama();
  config["model_type"] = "mixtral";
  config["num_local_experts"] = experts;
  config["num_experts_per_tok"] = 2;
  config["intermediate_size"] = 2048;
  return config;
}

Json CommandCase::chain(const std::vector<double>& seconds) const {
  Json graph{{"format", "nestplan.graph/1"},
             {"name", "chain"},
             {"strategies", {{{"id", "one"}, {"tp", 1}}}},
             {"layers", Json::array()},
             {"edges", Json::array()}};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const std::string id = "n" + std::to_string(i);
    graph["layers"].push_back({{"id", id},
                               {"costs",
                                {{"one",
                                  {{"forward_s", seconds[i] / 3},
                                   {"backward_s", seconds[i] * 2 / 3},
                                   {"parameters", 1000},
                                   {"activation_bytes", 1000}}}}}});
    if (i == 0) continue;
    graph["edges"].push_back({{"from", "n" + std::to_string(i - 1)}, {"to", id}, {"bytes", 1000}});
  }
  return graph;
}

Words CommandCase::plan(const std::string& kind, int batch, const Words& more) const {
  return Words{"plan",
               "--" + kind,
               path(kind + ".json"),
               "--cluster",
               path("machine.json"),
               "--global-batch",
               std::to_string(batch)} +
         more;
}

Json CommandCase::planned(const std::string& kind, int batch, const Words& more) const {
  const Outcome outcome = run(plan(kind, batch, Words{"--json"} + more));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
  return outcome.exit_code == 0 ? Json::parse(outcome.out) : Json();
}

std::string CommandCase::value_of(const Json& plan, const std::string& setting) {
  for (const Json& each : plan.at("target").at("settings")) {
    if (each.at("key") == setting) return each.at("value");
  }
  return "";
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Json without_search(Json plan) {
  plan.erase("search");
  return plan;
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "no <" << part << "> in <" << text << ">";
}

}  // namespace nestplan::cases
