#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <initializer_list>

#include "importers/samples.hpp"
#include "nestplan/lattice/lattice.hpp"

namespace nestplan::importers {
namespace {

using test::has;

onnx::ModelProto parsed(const std::string& content) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(content));
  return model;
}

void set_shape(onnx::ValueInfoProto& info, const std::string& name,
               std::initializer_list<std::int64_t> dims, const std::string& batch = "") {
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape();
  if (!batch.empty()) type->mutable_shape()->add_dim()->set_dim_param(batch);
  for (const std::int64_t dim : dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
}

onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& type, const std::string& name,
                          const std::vector<std::string>& inputs, const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(type);
  node.set_name(name);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

/// A weight without values.
void add_weight(onnx::GraphProto& graph, const std::string& name,
                std::initializer_list<std::int64_t> dims) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
}

/// [batch, 8] through a product to 32, a ReLU, and a product back to 8.
onnx::ModelProto two_products() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  set_shape(*graph.add_input(), "x", {8}, "batch");
  set_shape(*graph.add_output(), "y", {8}, "batch");
  add_weight(graph, "up.weight", {8, 32});
  add_weight(graph, "down.weight", {32, 8});
  add_node(graph, "MatMul", "/up/MatMul", {"x", "up.weight"}, "h");
  add_node(graph, "Relu", "/act/Relu", {"h"}, "a");
  add_node(graph, "MatMul", "/down/MatMul", {"a", "down.weight"}, "y");
  return model;
}

Imported read(const onnx::ModelProto& model, const Options& options = {}) {
  return test::import(model.SerializeAsString(), "m.onnx", Format::kOnnx, options);
}

std::string complaint(const onnx::ModelProto& model, const Options& options = {}) {
  return test::complaint(model.SerializeAsString(), "m.onnx", Format::kOnnx, options);
}

std::string complaint_after(const std::function<void(onnx::ModelProto&)>& change,
                            const Options& options = {}) {
  onnx::ModelProto model = two_products();
  change(model);
  return complaint(model, options);
}

Options at(Granularity granularity) {
  Options options;
  options.granularity = granularity;
  return options;
}

TEST(Onnx, WeightsNeedNoValues) {
  Options options;
  options.micro_batches = {1, 4};
  const model::Graph graph = read(two_products(), options).graph;
  ASSERT_EQ(graph.layers.size(), 3U);
  EXPECT_EQ(test::layer(graph, "up").costs[0]->parameters, 256);
  // forward 2·m·n·k each, backward twice that
  EXPECT_DOUBLE_EQ(*graph.model_flops_per_sample, 3 * (2 * 8 * 32 + 2 * 32 * 8));
  ASSERT_EQ(graph.strategies.size(), 2U);
  EXPECT_EQ(graph.strategies[1].micro_batch, 4);
  EXPECT_EQ(graph.edges[0].bytes, (std::vector<double>{32 * 2, 4 * 32 * 2}));
}

TEST(Onnx, FloatsAreAsWideAsThePrecisionSays) {
  const std::string content = two_products().SerializeAsString();
  const Imported wide = test::import(content, "m.onnx", Format::kOnnx, {}, "fp32");
  EXPECT_EQ(wide.graph.edges[0].bytes[0], 32 * 4);
}

TEST(Onnx, OutputsHoldTheLoss) {
  const model::Graph graph = read(two_products()).graph;
  EXPECT_EQ(test::layer(graph, "down").costs[0]->working_bytes, 8 * (4 + 2));
  EXPECT_EQ(test::layer(graph, "up").costs[0]->working_bytes, 0);
}

TEST(Onnx, SharedWeightsAreTies) {
  onnx::ModelProto model = two_products();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.mutable_node(2)->mutable_output()->Mutable(0)->assign("z");
  add_node(graph, "MatMul", "/again/MatMul", {"z", "up.weight"}, "v");
  add_node(graph, "MatMul", "/last/MatMul", {"v", "down.weight"}, "y");
  const model::Graph read_graph = read(model).graph;
  ASSERT_EQ(read_graph.ties.size(), 2U);
  EXPECT_EQ(read_graph.ties[0].layers.size(), 2U);
  EXPECT_EQ(read_graph.ties[0].parameters[0], 256);
}

/// Exporters merge parameters that start out equal and tell them apart by Identity.
TEST(Onnx, IdentitiesOfParametersAreParametersOfTheirOwn) {
  onnx::ModelProto model = two_products();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.mutable_initializer(1)->set_name("unused");
  add_weight(graph, "down.bias", {8});
  graph.mutable_node(2)->mutable_input(1)->assign("up.weight");
  graph.mutable_initializer(0)->mutable_dims()->Set(0, 32);
  graph.mutable_initializer(0)->mutable_dims()->Set(1, 32);
  auto* dims = graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  dims->mutable_dim(1)->set_dim_value(32);
  graph.mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(32);
  EXPECT_EQ(read(model).graph.ties.size(), 1U);
  graph.mutable_node(2)->mutable_input(1)->assign("copy");
  add_node(graph, "Identity", "Identity_0", {"up.weight"}, "copy");
  graph.mutable_node()->SwapElements(2, 3);
  EXPECT_EQ(read(model).graph.ties.size(), 0U);
  EXPECT_EQ(test::layer(read(model).graph, "down").costs[0]->parameters, 32 * 32);
}

TEST(Onnx, TheTableThatIsFoldedIntoTheHeadIsTied) {
  const model::Graph graph = test::import_sample("gpt.onnx").graph;
  ASSERT_EQ(graph.ties.size(), 1U);
  EXPECT_EQ(graph.layers[static_cast<std::size_t>(graph.ties[0].layers[0])].id, "wte");
  EXPECT_EQ(graph.layers[static_cast<std::size_t>(graph.ties[0].layers[1])].id, "lm_head");
}

TEST(Onnx, ConvolutionsCountTheirGroups) {
  const model::Graph graph = test::import_sample("convnet.onnx").graph;
  const double pixels = 32 * 32;
  const double products = pixels * 16 * 27 + pixels * 16 * 16 * 9 + pixels * 16 * 4 * 9 + 160;
  EXPECT_DOUBLE_EQ(*graph.model_flops_per_sample, 3 * 2 * products);
  EXPECT_EQ(graph.tokens_per_sample, std::nullopt);
}

TEST(Onnx, UnfusedAttentionKeepsItsScores) {
  Options unfused;
  unfused.fused_attention = false;
  const auto kept = [](const Options& options) {
    return test::layer(test::import_sample("gpt.onnx", options).graph, "h.0")
        .costs[0]
        ->activation_bytes;
  };
  const double rows = 4 * 8;  // heads and queries
  EXPECT_EQ(kept(unfused) - kept({}), rows * (8 * 2 - 4));
}

TEST(Onnx, OperatorsAreKernels) {
  const model::Graph graph = test::import_sample("gpt.onnx", at(Granularity::kOperator)).graph;
  for (const char* id : {"h.0.ln_1", "h.0.attn.qkv", "h.0.attn", "h.0.attn.proj", "h.0.fc"}) {
    EXPECT_TRUE(test::layer(graph, id).costs[0].has_value()) << id;
  }
  const auto cuts = lattice::Lattice::enumerate(graph).size();
  EXPECT_LE(cuts, static_cast<int>(graph.layers.size()) + 4);  // residuals do not multiply them
}

TEST(Onnx, GranularitiesAddUpToTheSame) {
  for (const char* file : {"gpt.onnx", "llama.onnx", "encoder.onnx", "convnet.onnx"}) {
    const auto sums = [&](Granularity granularity) {
      std::array<double, 3> total{};
      for (const auto& layer : test::import_sample(file, at(granularity)).graph.layers) {
        total[0] += layer.costs[0]->activation_bytes;
        total[1] += layer.costs[0]->forward_s * 1e9;
        total[2] += layer.costs[0]->backward_s * 1e9;
      }
      return total;
    };
    const auto fine = sums(Granularity::kOperator), coarse = sums(Granularity::kBlock);
    for (std::size_t i = 0; i < fine.size(); ++i) EXPECT_NEAR(fine[i], coarse[i], 1e-3) << file;
  }
}

TEST(Onnx, WithoutModulePathsBlocksAreResidualBranches) {
  onnx::ModelProto model = parsed(test::sample("gpt.onnx"));
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) node.clear_name();
  const model::Graph graph = read(model).graph;
  EXPECT_TRUE(in_a_row(graph));
  EXPECT_GE(graph.layers.size(), 5U);  // two branches in each of two blocks, and the head
  EXPECT_LE(graph.layers.size(), 8U);
  EXPECT_TRUE(graph.layers[0].id.starts_with("block."));
}

TEST(Onnx, UnknownOperatorsAreNamedWithTheNearest) {
  const auto misspell = [](onnx::ModelProto& m) {
    m.mutable_graph()->mutable_node(1)->set_op_type("Rellu");
  };
  EXPECT_EQ(complaint_after(misspell),
            "m.onnx: node \"/act/Relu\": unknown operator \"Rellu\" (did you mean \"Relu\"?); "
            "--unknown memory-bound counts its inputs and outputs");
  const auto replace = [](onnx::ModelProto& m) {
    m.mutable_graph()->mutable_node(1)->set_op_type("Hardmax");
  };
  EXPECT_TRUE(has(complaint_after(replace), "unknown operator \"Hardmax\""));
  onnx::ModelProto model = two_products();
  replace(model);
  Options options;
  options.unknown_memory_bound = true;
  EXPECT_EQ(read(model, options).graph.layers.size(), 3U);
}

TEST(Onnx, ShapesThatDoNotFitNameTheNode) {
  const std::string message = complaint_after(
      [](onnx::ModelProto& m) { m.mutable_graph()->mutable_initializer(1)->set_dims(0, 31); });
  EXPECT_TRUE(has(message, "/down/MatMul")) << message;
}

TEST(Onnx, StridesOfNothingAreRefused) {
  onnx::ModelProto model = parsed(test::sample("convnet.onnx"));
  for (onnx::NodeProto& node : *model.mutable_graph()->mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.name() == "strides") attribute.set_ints(0, 0);
    }
  }
  EXPECT_TRUE(has(complaint(model), "strides: 0 is not between 1 and 2^31"));
}

TEST(Onnx, EmptyTensorsAreRefused) {
  const std::string message = complaint_after([](onnx::ModelProto& m) {
    m.mutable_graph()->mutable_initializer(0)->set_dims(1, 0);
    m.mutable_graph()->mutable_initializer(1)->set_dims(0, 0);
  });
  EXPECT_TRUE(has(message, "node \"/up/MatMul\": the tensor \"h\" has no elements")) << message;
}

TEST(Onnx, BrokenModelsAreRefused) {
  EXPECT_TRUE(has(complaint_after([](auto& m) { m.mutable_graph()->clear_node(); }), "no nodes"));
  EXPECT_TRUE(has(complaint_after([](auto& m) {
                    m.mutable_graph()->mutable_node(0)->mutable_input(0)->assign("a");
                  }),
                  "m.onnx: "));  // a cycle
  EXPECT_TRUE(has(
      complaint_after([](auto& m) { m.mutable_graph()->mutable_initializer(0)->set_dims(0, -8); }),
      "initializer \"up.weight\""));
  EXPECT_TRUE(has(complaint_after([](auto& m) {
                    auto* body = m.mutable_graph()->mutable_node(1)->add_attribute();
                    body->set_name("body");
                    body->mutable_g()->set_name("loop");
                  }),
                  "control flow"));
  EXPECT_TRUE(
      has(complaint_after([](auto& m) { m.add_functions()->set_name("f"); }), "function \"f\""));
}

TEST(Onnx, SymbolicAxesNeedSizes) {
  const auto symbolic = [](onnx::ModelProto& m) {
    auto* shape =
        m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(1)->set_dim_param("width");
  };
  EXPECT_TRUE(has(complaint_after(symbolic), "--dim width=N"));
  onnx::ModelProto model = two_products();
  symbolic(model);
  Options options;
  options.dimensions = {{"width", 8}};
  EXPECT_EQ(read(model, options).graph, read(two_products()).graph);
  options.dimensions = {{"widht", 8}};
  EXPECT_TRUE(has(complaint(model, options), "--dim"));
}

TEST(Onnx, SizesOfNoAxisAreRefusedWithTheNearest) {
  onnx::ModelProto model = two_products();
  auto* shape = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  shape->mutable_shape()->mutable_dim(1)->set_dim_param("width");
  Options options;
  options.dimensions = {{"widht", 8}};
  EXPECT_EQ(complaint(model, options),
            "--dim: m.onnx has no symbolic axis \"widht\" (did you mean \"width\"?)");
  options.dimensions = {{"batch", 8}};
  EXPECT_TRUE(has(complaint(model, options), "--micro-batch 8"));
  options.dimensions = {{"width", 8}};
  EXPECT_TRUE(has(complaint(two_products(), options), "none of its axes needs a size"));
}

/// Puts the values of all initializers into the file `name` of the tests' folder.
onnx::ModelProto with_values_outside(const std::string& name) {
  onnx::ModelProto model = parsed(test::sample("gpt.onnx"));
  std::ofstream file(testing::TempDir() + name, std::ios::binary);
  std::size_t offset = 0;
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    file << tensor.raw_data();
    const auto add = [&](const char* key, const std::string& value) {
      onnx::StringStringEntryProto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    add("location", name);
    add("offset", std::to_string(offset));
    add("length", std::to_string(tensor.raw_data().size()));
    offset += tensor.raw_data().size();
    tensor.clear_raw_data();
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  }
  return model;
}

Imported read_in_folder(const onnx::ModelProto& model) {
  return test::import(model.SerializeAsString(), testing::TempDir() + "gpt.onnx", Format::kOnnx);
}

TEST(Onnx, ValuesBesideTheModelTellMasksAndTies) {
  const onnx::ModelProto model = with_values_outside("gpt.weights");
  const Imported outside = read_in_folder(model);
  EXPECT_EQ(outside.graph, test::import_sample("gpt.onnx").graph);
  EXPECT_EQ(outside.remarks, std::vector<std::string>());

  std::filesystem::resize_file(testing::TempDir() + "gpt.weights", 16);
  const Imported cut = read_in_folder(model);
  EXPECT_GT(cut.graph.model_flops_per_sample, outside.graph.model_flops_per_sample);
  ASSERT_EQ(cut.remarks.size(), 2U);
  EXPECT_TRUE(has(cut.remarks[0], "2 attentions are counted with all pairs")) << cut.remarks[0];
  EXPECT_TRUE(has(cut.remarks[1], "not to be tied")) << cut.remarks[1];
  std::filesystem::remove(testing::TempDir() + "gpt.weights");
}

TEST(Onnx, ValuesOutsideTheFolderAreNotOpened) {
  for (const char* location : {"/etc/passwd", "../gpt.weights"}) {
    onnx::ModelProto model = with_values_outside("stray.weights");
    for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
      tensor.mutable_external_data(0)->set_value(location);
    }
    EXPECT_TRUE(has(complaint(model), "not in the folder of the model"));
  }
  std::filesystem::remove(testing::TempDir() + "stray.weights");
}

/// Scores of 4 tokens over themselves with a mask that `add_mask` calls "mask", softmax, and
/// values.
onnx::ModelProto masked_attention(const std::function<void(onnx::GraphProto&)>& add_mask) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  set_shape(*graph.add_input(), "x", {2, 4, 8}, "batch");
  set_shape(*graph.add_output(), "y", {2, 4, 8}, "batch");
  add_mask(graph);
  add_node(graph, "Transpose", "/Transpose", {"x"}, "keys");
  onnx::AttributeProto& order = *graph.mutable_node(graph.node_size() - 1)->add_attribute();
  order.set_name("perm");
  order.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t axis : {0, 1, 3, 2}) order.add_ints(axis);
  add_node(graph, "MatMul", "/Scores", {"x", "keys"}, "scores");
  add_node(graph, "Add", "/Add", {"scores", "mask"}, "masked");
  add_node(graph, "Softmax", "/Softmax", {"masked"}, "shares");
  add_node(graph, "MatMul", "/Values", {"shares", "x"}, "y");
  return model;
}

onnx::TensorProto& add_floats(onnx::GraphProto& graph, const std::string& name,
                              const std::vector<float>& values) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.mutable_float_data()->Assign(values.begin(), values.end());
  return tensor;
}

TEST(Onnx, MasksInTypedFieldsAndFoldedComparisonsAreCausal) {
  const auto triangle = [](float corner) {
    return [corner](onnx::GraphProto& graph) {
      std::vector<float> values;
      for (int i = 0; i < 16; ++i) values.push_back(i % 4 > i / 4 ? -1e9F : 0);
      values.back() = corner;
      onnx::TensorProto& mask = add_floats(graph, "mask", values);
      mask.add_dims(4);
      mask.add_dims(4);
    };
  };
  const auto compared = [](onnx::GraphProto& graph) {
    for (const bool row : {true, false}) {
      onnx::TensorProto& places = *graph.add_initializer();
      places.set_name(row ? "row" : "column");
      places.set_data_type(onnx::TensorProto::INT64);
      for (int i = 0; i < 4; ++i) places.add_int64_data(i);
      places.add_dims(row ? 1 : 4);
      places.add_dims(row ? 4 : 1);
    }
    add_floats(graph, "never", {-1e9F});
    add_floats(graph, "always", {0});
    add_node(graph, "Greater", "/Greater", {"row", "column"}, "later");
    add_node(graph, "Where", "/Where", {"later", "never", "always"}, "mask");
  };
  const Imported full = read(masked_attention(triangle(1)));
  ASSERT_EQ(full.remarks.size(), 1U);
  EXPECT_TRUE(has(full.remarks[0], "1 attention is counted with all pairs")) << full.remarks[0];
  const double flops = *full.graph.model_flops_per_sample;
  for (const Imported& causal :
       {read(masked_attention(triangle(0))), read(masked_attention(compared))}) {
    EXPECT_EQ(causal.remarks, std::vector<std::string>());
    EXPECT_DOUBLE_EQ(*causal.graph.model_flops_per_sample, flops / 2);
  }
}

TEST(Onnx, AFixedBatchIsTheOnlyOne) {
  onnx::ModelProto model = two_products();
  for (auto* info :
       {model.mutable_graph()->mutable_input(0), model.mutable_graph()->mutable_output(0)}) {
    auto* shape = info->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->mutable_dim(0)->set_dim_value(2);
  }
  EXPECT_EQ(read(model).graph.strategies[0].micro_batch, 2);
  Options options;
  options.micro_batches = {1};
  EXPECT_TRUE(has(complaint(model, options), "exported for a batch of 2"));
}

TEST(Onnx, DegreesThatSplitNothingAreLeftOut) {
  Options options;
  options.tp = {1, 2, 5};
  const Imported imported = test::import_sample("gpt.onnx", options);
  EXPECT_EQ(imported.graph.strategies.size(), 2U);
  ASSERT_EQ(imported.remarks.size(), 1U);
  EXPECT_EQ(imported.remarks[0],
            "tp 5 is left out: no pair of products can be split so many ways (nearest: 4, 8)");
  options.tp = {3};
  EXPECT_EQ(test::complaint(test::sample("gpt.onnx"), "gpt.onnx", Format::kOnnx, options),
            "--tp: no pair of products of gpt.onnx can be split 3 ways (nearest: 2, 4)");
  options.tp = {5};
  EXPECT_TRUE(
      has(test::complaint(test::sample("gpt.onnx"), "gpt.onnx", Format::kOnnx, options), "--tp"));
}

TEST(Onnx, DegreesThatSplitNoAttentionAreRemarkedOn) {
  Options options;
  options.tp = {8};
  const Imported imported = test::import_sample("gpt.onnx", options);
  ASSERT_EQ(imported.remarks.size(), 1U);
  EXPECT_EQ(imported.remarks[0], "tp 8 leaves 2 of 2 attentions on every device as a whole");
}

TEST(Onnx, FormatsAreToldApart) {
  EXPECT_EQ(detect_format(test::sample("gpt.onnx"), "a.onnx"), Format::kOnnx);
  EXPECT_EQ(detect_format(test::sample("gpt.fx.json"), "a"), Format::kFx);
  EXPECT_EQ(detect_format("{\"workload_graph\": []}", "a"), Format::kChakra);
  EXPECT_EQ(detect_format("\x0a\x05", "a.et"), Format::kChakra);
  EXPECT_THROW(detect_format("\x0a\x05", "a"), InvalidInput);
  EXPECT_THROW(detect_format("\x1f\x8b", "a.et"), InvalidInput);
  EXPECT_THROW(detect_format(" ", "a.onnx"), InvalidInput);
  EXPECT_THROW(parse_format("onx"), InvalidConfig);
}

TEST(Onnx, OtherFilesAreCalledWhatTheyAre) {
  const auto said = [](const std::string& content, const std::string& file) {
    try {
      detect_format(content, file);
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string("no complaint");
  };
  const std::string taken =
      "import takes ONNX models, nestplan.fx/1 of inputs/export_torch_graph.py, and Chakra traces";
  EXPECT_EQ(said(R"({"model_type": "llama"})", "c.json"),
            "c.json: is a model's config of Hugging Face (for --model); " + taken);
  EXPECT_EQ(said(R"({"format": "nestplan.graph/1"})", "g.json"),
            "g.json: is a graph of nestplan already (for --graph); " + taken);
  EXPECT_TRUE(has(said(R"({"format": "nestplan.cluster/1"})", "c"), "for --cluster"));
  EXPECT_TRUE(has(said(R"({"format": "nestplan.plan/1"})", "p"), "a plan of nestplan"));
  EXPECT_TRUE(has(said(R"({"format": "nestplan.fx/2"})", "f"), "did you mean \"nestplan.fx/1\""));
  EXPECT_TRUE(has(said(R"({"workload_grap": []})", "t"), "is not \"workload_graph\""));
  EXPECT_TRUE(has(said(R"({"traceEvents": []})", "t"), "chakra_trace_link"));
  EXPECT_TRUE(has(said(R"({"a": 1})", "a.json"), "is JSON of no kind that is known; " + taken));
  EXPECT_TRUE(has(said(R"({"workload_graph": [)", "t"), "line 1"));
  EXPECT_TRUE(has(said("PK\x03\x04", "model.pt"), "a zip archive"));
  EXPECT_TRUE(has(said("import torch", "model.py"), "export_torch_graph.py FILE.py:FUNCTION"));
}

}  // namespace
}  // namespace nestplan::importers
