#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "importers/samples.hpp"
#include "importers/traces.hpp"
#include "nestplan/io/keys.hpp"

namespace nestplan::importers {
namespace {

using nlohmann::json;
using test::has;

Options with_tp(std::int64_t tp) {
  Options options;
  options.tp = {tp};
  return options;
}

Imported read(const std::vector<chakra::Node>& nodes, const Options& options = with_tp(2)) {
  return test::import(test::as_protobuf(nodes), "trace.et", Format::kChakra, options);
}

std::string complaint(const std::vector<chakra::Node>& nodes, const Options& options = {}) {
  return test::complaint(test::as_protobuf(nodes), "trace.et", Format::kChakra, options);
}

void expect_two_layers(const model::Graph& graph) {
  ASSERT_EQ(graph.layers.size(), 2U);
  const model::LayerCost& a = *test::layer(graph, "a").costs[0];
  const model::LayerCost& b = *test::layer(graph, "b").costs[0];
  EXPECT_DOUBLE_EQ(a.forward_s, 10e-6);
  EXPECT_DOUBLE_EQ(a.backward_s, 30e-6);
  EXPECT_DOUBLE_EQ(b.forward_s, 20e-6);
  EXPECT_DOUBLE_EQ(b.backward_s, 40e-6);
  EXPECT_EQ(a.activation_bytes, 512);
  EXPECT_EQ(b.activation_bytes, 256);
  EXPECT_EQ(b.checkpoint_bytes, 512);
  ASSERT_EQ(graph.edges.size(), 1U);
  EXPECT_EQ(graph.edges[0].bytes[0], 512);
}

TEST(Chakra, ProtobufAndItsJsonAreTheSame) {
  const std::vector<chakra::Node> nodes = test::two_layers();
  expect_two_layers(read(nodes).graph);
  const Imported of_text =
      test::import(test::as_messages(nodes), "trace.et", Format::kChakra, with_tp(2));
  EXPECT_EQ(of_text.graph, read(nodes).graph);
}

TEST(Chakra, TheFeedersJsonIsRead) {
  json list = json::array();
  for (const chakra::Node& node : test::two_layers()) {
    json entry{{"Id", node.id()},
               {"Name", node.name()},
               {"NodeType", static_cast<int>(node.type())},
               {"is_cpu_op", true},
               {"runtime", node.duration_micros()},
               {"data_deps", node.data_deps()}};
    for (const chakra::Attribute& each : node.attr()) entry[each.name()] = each.int64_val();
    list.push_back(entry);
  }
  const std::string text = json{{"workload_graph", list}}.dump();
  const Imported imported = test::import(text, "trace.et", Format::kChakra, with_tp(2));
  EXPECT_EQ(imported.graph, read(test::two_layers()).graph);
}

TEST(Chakra, GradientsTellParametersAndTheRestIsTensorParallel) {
  const model::Graph graph = read(test::two_layers()).graph;
  const model::LayerCost& a = *test::layer(graph, "a").costs[0];
  const model::LayerCost& b = *test::layer(graph, "b").costs[0];
  EXPECT_EQ(a.parameters, 1000);
  EXPECT_EQ(b.parameters, 2000);
  const std::vector<model::Collective> expected{
      {model::Phase::kForward, model::CollectiveOp::kAllReduce, model::GroupKind::kTensor, 4096}};
  EXPECT_EQ(a.collectives, expected);
  EXPECT_TRUE(b.collectives.empty());
  EXPECT_EQ(graph.strategies[0].tp, 2);
}

TEST(Chakra, WithoutADegreeCollectivesAreLeftOutAndRemarkedOn) {
  const Imported imported = read(test::two_layers(), with_tp(1));
  EXPECT_TRUE(test::layer(imported.graph, "a").costs[0]->collectives.empty());
  ASSERT_EQ(imported.remarks.size(), 1U);
  EXPECT_TRUE(has(imported.remarks[0], "--tp"));
}

TEST(Chakra, AForwardTraceGetsABackwardPassTwiceAsLong) {
  std::vector<chakra::Node> nodes = test::two_layers();
  nodes.resize(3);
  const Imported imported = read(nodes);
  EXPECT_DOUBLE_EQ(test::layer(imported.graph, "b").costs[0]->backward_s, 40e-6);
  ASSERT_EQ(imported.remarks.size(), 1U);
  EXPECT_TRUE(has(imported.remarks[0], "no backward pass"));
}

/// As PyTorch's traces have it: host operators launch kernels, and autograd numbers them.
TEST(Chakra, SequenceNumbersPairKernels) {
  const auto host = [](std::uint64_t id, const std::string& name, std::int64_t sequence,
                       std::int64_t thread, const std::vector<std::uint64_t>& data) {
    chakra::Node node = test::compute(id, name, 3, data);
    test::set(node, "seq_id", sequence);
    test::set(node, "fw_tid", thread);
    return node;
  };
  const auto kernel = [](std::uint64_t id, std::uint64_t micros, std::uint64_t launcher,
                         const std::vector<std::uint64_t>& data) {
    chakra::Node node = test::compute(id, "kernel" + std::to_string(id), micros, data);
    node.add_ctrl_deps(launcher);
    chakra::Attribute* attribute = node.add_attr();
    attribute->set_name("is_cpu_op");
    attribute->set_bool_val(false);
    node.mutable_outputs()->set_shapes("[[4, 8]]");
    node.mutable_outputs()->set_types("['Tensor(c10::BFloat16)']");
    return node;
  };
  const model::Graph graph =
      read({host(0, "aten::mm", 7, 0, {}), kernel(1, 10, 0, {}), host(2, "aten::relu", 8, 0, {0}),
            kernel(3, 5, 2, {1}), host(4, "ReluBackward0", 8, 1, {2}), kernel(5, 6, 4, {3}),
            host(6, "MmBackward0", 7, 1, {4}), kernel(7, 21, 6, {5})},
           with_tp(1))
          .graph;
  ASSERT_EQ(graph.layers.size(), 2U);
  EXPECT_DOUBLE_EQ(graph.layers[0].costs[0]->forward_s, 10e-6);
  EXPECT_DOUBLE_EQ(graph.layers[0].costs[0]->backward_s, 21e-6);
  EXPECT_DOUBLE_EQ(graph.layers[1].costs[0]->backward_s, 6e-6);
  ASSERT_EQ(graph.edges.size(), 1U);
  EXPECT_EQ(graph.edges[0].bytes[0], 4 * 8 * 2);
}

TEST(Chakra, NumberedNamesAreBlocks) {
  std::vector<chakra::Node> nodes;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const std::string block = "layers." + std::to_string(i / 2);
    nodes.push_back(test::compute(i, block + "/" + (i % 2 == 0 ? "attention" : "mlp"), 10,
                                  i == 0 ? std::vector<std::uint64_t>{} : std::vector{i - 1}));
    test::set(nodes.back(), "tensor_size", 100);
  }
  EXPECT_EQ(read(nodes).graph.layers.size(), 2U);
  EXPECT_DOUBLE_EQ(test::layer(read(nodes).graph, "layers.1").costs[0]->forward_s, 20e-6);
  Options fine = with_tp(1);
  fine.granularity = Granularity::kOperator;
  EXPECT_EQ(read(nodes, fine).graph.layers.size(), 4U);
}

TEST(Chakra, SizesThatAreNotToldAreAskedFor) {
  std::vector<chakra::Node> nodes = test::two_layers();
  nodes[0].clear_attr();
  EXPECT_TRUE(has(complaint(nodes), "--tensor-bytes"));
  Options options = with_tp(2);
  options.tensor_bytes = 77;
  EXPECT_EQ(read(nodes, options).graph.edges[0].bytes[0], 77);
}

TEST(Chakra, ShapesThatAreNoShapesAreNotFollowed) {
  std::vector<chakra::Node> nodes = test::two_layers();
  nodes[0].clear_attr();
  constexpr std::size_t kDeep = 200'000;
  nodes[0].mutable_outputs()->set_shapes(std::string(kDeep, '[') + "1" + std::string(kDeep, ']'));
  EXPECT_TRUE(has(complaint(nodes), "--tensor-bytes"));
}

TEST(Chakra, BrokenTracesAreRefusedByName) {
  std::vector<chakra::Node> nodes = test::two_layers();
  nodes[2].add_data_deps(99);
  EXPECT_TRUE(
      has(complaint(nodes), "node 2 (\"COMP_NODE_b_FWD\"): data_deps: no node has the id 99"));
  nodes = test::two_layers();
  nodes[3].set_id(2);
  EXPECT_TRUE(has(complaint(nodes), "another node has its id"));
  nodes = test::two_layers();
  nodes[0].add_ctrl_deps(4);
  EXPECT_TRUE(has(complaint(nodes), "cycle"));
  nodes = test::two_layers();
  nodes[2].set_name("COMP_NODE_a_FWD");
  EXPECT_TRUE(has(complaint(nodes), "has run before"));
  nodes = test::two_layers();
  nodes[6].set_name("COMP_NODE_z_BWD_WG");
  EXPECT_TRUE(has(complaint(nodes), "no forward computation"));
  EXPECT_TRUE(has(complaint({}), "no nodes"));
  const std::string content = test::as_protobuf(test::two_layers());
  EXPECT_TRUE(has(test::complaint(content.substr(0, content.size() - 3), "t", Format::kChakra),
                  "cut short"));
}

/// Names of the fields, in JSON, of a message of the protobuf.
std::set<std::string> fields_of(const google::protobuf::Descriptor& message) {
  std::set<std::string> names;
  for (int i = 0; i < message.field_count(); ++i) names.insert(message.field(i)->json_name());
  return names;
}

TEST(Chakra, TheSchemaHasWhatIsRead) {
  const auto schema = nlohmann::json::parse(
      io::read_text(NESTPLAN_SOURCE_DIR "/inputs/schemas/chakra.schema.json"));
  const auto listed = [](const nlohmann::json& object) {
    std::set<std::string> names;
    for (const auto& [name, value] : object.at("properties").items()) names.insert(name);
    return names;
  };
  const auto known = [](const io::KeySet& keys) {
    std::set<std::string> names(keys.required.begin(), keys.required.end());
    names.insert(keys.optional.begin(), keys.optional.end());
    return names;
  };
  const nlohmann::json& objects = schema.at("$defs");
  EXPECT_EQ(listed(schema), known(io::chakra_keys::kTrace));
  EXPECT_EQ(listed(objects.at("node")), known(io::chakra_keys::kNode));
  EXPECT_EQ(objects.at("node").at("required"), nlohmann::json(io::chakra_keys::kNode.required));
  EXPECT_EQ(listed(objects.at("message")), fields_of(*chakra::Node::descriptor()));
  EXPECT_EQ(listed(objects.at("values")), fields_of(*chakra::Values::descriptor()));
  EXPECT_EQ(listed(objects.at("attribute")), fields_of(*chakra::Attribute::descriptor()));
  nlohmann::json types = nlohmann::json::array();
  for (int i = 0; i < chakra::NodeType_descriptor()->value_count(); ++i) {
    types.push_back(chakra::NodeType_descriptor()->value(i)->name());
  }
  EXPECT_EQ(objects.at("message").at("properties").at("type").at("enum"), types);
}

TEST(Chakra, OneDegreeAndOneMicroBatch) {
  Options options;
  options.tp = {1, 2};
  EXPECT_TRUE(has(complaint(test::two_layers(), options), "--tp"));
  options.tp = {1};
  options.micro_batches = {1, 2};
  EXPECT_TRUE(has(complaint(test::two_layers(), options), "--micro-batch"));
}

}  // namespace
}  // namespace nestplan::importers
