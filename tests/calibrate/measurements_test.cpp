#include "nestplan/calibrate/measurements.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nestplan/cost/device_models.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "util/expect_error.hpp"

namespace nestplan::calibrate {
namespace {

using test::expect_contains;
using test::message_of;

constexpr const char* kInputs = NESTPLAN_SOURCE_DIR "/inputs/";

Setting setting() {
  Setting setting;
  setting.cluster = io::read_cluster(std::string(kInputs) + "clusters/single-node-8xh100.json");
  setting.load_model = [](const std::string& name) {
    return io::read_model(std::string(kInputs) + "models/" + name);
  };
  return setting;
}

std::vector<Sample> runs(const std::string& table) {
  return read_runs(table, "runs.csv", setting());
}
std::vector<Sample> layers(const std::string& table) {
  return read_layers(table, "layers.csv", setting());
}

model::DeviceModel hopper() { return cost::model_of(setting().cluster.device); }

TEST(Runs, ArePredictedByTheEvaluator) {
  const std::vector<Sample> read = runs(
      "# a comment\n"
      "model, seq, global_batch, micro_batch, tp, pp, vpp, recompute, iteration_s, note\n"
      "llama-2-7b, 4096, 64, 1, 2, 2, 2, full, 12.5, \"cold, and noisy\"\n"
      "llama-2-7b, 4096, 64, 1, 2, 2, 2, none, 10,\n");
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(read[0].where, "runs.csv:3");
  EXPECT_EQ(read[0].measured_s, 12.5);
  EXPECT_NE(read[0].group, read[1].group);
  expect_contains(read[0].label, "llama-2-7b");
  expect_contains(read[0].label, "tp2 pp2 vpp2");
  // recomputation runs the forward pass again
  EXPECT_GT(read[0].seconds(hopper()), 1.2 * read[1].seconds(hopper()));
  model::DeviceModel faster = hopper();
  faster.matmul_efficiency *= 1.1;
  EXPECT_LT(read[1].seconds(faster), read[1].seconds(hopper()));
}

/// A stage on both types takes as long as its slower devices, which keep their own parameters.
TEST(Runs, AreOfEveryTypeOfDevices) {
  Setting mixed = setting();
  mixed.cluster.other_devices = {mixed.cluster.device};
  mixed.cluster.other_devices[0].name = "a100";
  mixed.cluster.other_devices[0].peak_flops = {{"bf16", 312e12}};
  mixed.cluster.types = {{{4, 4}, 1}};
  const auto seconds = [](const Setting& of, const char* degrees, const model::DeviceModel& model) {
    return read_runs("model,seq,global_batch,tp,pp,iteration_s\nllama-2-7b,4096,64," +
                         std::string(degrees) + ",9\n",
                     "runs.csv", of)
        .front()
        .seconds(model);
  };
  model::DeviceModel faster = hopper();
  faster.matmul_efficiency *= 1.2;
  for (const char* degrees : {"8,1", "1,1", "4,2"}) {
    EXPECT_GT(seconds(mixed, degrees, hopper()), 1.8 * seconds(setting(), degrees, hopper()));
  }
  EXPECT_EQ(seconds(mixed, "8,1", faster), seconds(mixed, "8,1", hopper()));
  EXPECT_LT(seconds(mixed, "4,2", faster), seconds(mixed, "4,2", hopper()));
}

TEST(Runs, OfOtherDevicesAreRefused) {
  const std::string columns = "device,model,seq,global_batch,iteration_s\n";
  const std::string name = setting().cluster.device.name;
  EXPECT_EQ(runs(columns + ",llama-2-7b,4096,64,5\n").size(), 1U);
  EXPECT_EQ(runs(columns + "H100-SXM,llama-2-7b,4096,64,5\n").size(), 1U) << name;
  expect_contains(message_of([&] { runs(columns + "a100,llama-2-7b,4096,64,5\n"); }),
                  "runs.csv:2: device: \"a100\" is not \"" + name + "\"");
  expect_contains(
      message_of([] { layers("device,model,seq,layer,forward_s\na100,llama-2-7b,4096,head,1\n"); }),
      "layers.csv:2: device: \"a100\" is not");
}

TEST(Runs, OfSequencesSayHowLongTheseAre) {
  expect_contains(message_of([] { runs("model,global_batch,iteration_s\nllama-2-7b,64,5\n"); }),
                  "runs.csv:2: seq: is missing");
}

TEST(Runs, MayHaveAnyNumberOfPartsUpToThatOfBlocks) {
  for (const char* degrees : {"1, 1", "2, 3", "4, 3", "8, 1", "8, 3", "8, 4"}) {
    const std::vector<Sample> read =
        runs("model, seq, global_batch, pp, vpp, iteration_s\nllama-2-7b, 4096, 64, " +
             std::string(degrees) + ", 12.5\n");
    EXPECT_GT(read.front().seconds(hopper()), 0) << degrees;
  }
}

TEST(Runs, TakeTokensPerSecondInstead) {
  const std::vector<Sample> read =
      runs("model,seq,global_batch,tokens_per_s\nllama-2-7b,4096,64,52428.8\n");
  EXPECT_DOUBLE_EQ(read.front().measured_s, 5);
}

TEST(Runs, RepeatsAreOneGroup) {
  const std::vector<Sample> read = runs(
      "model,seq,global_batch,iteration_s,group,note\n"
      "llama-2-7b,4096,64,5,,first\nllama-2-7b,4096,64,5.1,,second\n"
      "llama-2-7b,4096,128,10,mine,\nllama-3.1-8b,4096,128,10,mine,\n");
  EXPECT_EQ(read[0].group, read[1].group);
  EXPECT_NE(read[0].group, read[2].group);
  EXPECT_EQ(read[2].group, read[3].group);
}

TEST(Runs, OnFewerDevicesHaveTheFirstOfTheCluster) {
  const std::vector<Sample> read = runs(
      "model,seq,global_batch,devices,iteration_s\n"
      "llama-2-7b,4096,64,8,5\nllama-2-7b,4096,64,4,10\n");
  EXPECT_NEAR(read[1].seconds(hopper()) / read[0].seconds(hopper()), 2, 0.1);
}

TEST(Runs, TellWhereATableIsWrong) {
  const auto error = [](const std::string& columns, const std::string& cells) {
    return message_of([&] {
      runs("model,seq,global_batch,iteration_s" + columns + "\nllama-2-7b,4096,64,5" + cells +
           "\n");
    });
  };
  EXPECT_EQ(error(",micro_bach", ",1"),
            "runs.csv: unknown column \"micro_bach\" (did you mean \"micro_batch\"?)");
  EXPECT_EQ(error(",tp", ",two"), "runs.csv:2: tp: \"two\" is not a whole number of at least 1");
  EXPECT_EQ(error(",tp", ",3"), "runs.csv:2: devices: 8 is no multiple of tp·cp·pp = 3");
  EXPECT_EQ(error(",devices", ",9"), "runs.csv:2: devices: 9, but the cluster has 8");
  EXPECT_EQ(error(",tp,cp,pp", ",536870912,536870912,536870912"),
            "runs.csv:2: tp: 536870912 is more than 8 devices have room for");
  EXPECT_EQ(error(",vpp", ",2"),
            "runs.csv:2: vpp: 2 with pp 1 and 8 micro-batches: interleaving takes several stages, "
            "and a multiple of them in micro-batches");
  EXPECT_EQ(error(",pp,vpp", ",2,17"),
            "runs.csv:2: pp: pp·vpp is 2·17, but the model has 32 blocks");
  EXPECT_EQ(error(",dp", ",4"), "runs.csv:2: dp: tp·cp·pp·dp is 4, but there are 8 devices");
  EXPECT_EQ(error(",recompute", ",ful"),
            "runs.csv:2: recompute: unknown \"ful\" (did you mean \"full\"?)");
  EXPECT_EQ(error(",zero", ",4"), "runs.csv:2: zero: is 0, 1, 2 or 3");
  EXPECT_EQ(error(",tokens_per_s", ",5"),
            "runs.csv:2: iteration_s: a run has either this or tokens_per_s");
  EXPECT_EQ(error(",tp", ",1,1"), "runs.csv:2: 6 cells, but 5 columns");
  expect_contains(error(",precision", ",bf17"), "runs.csv:2: precision: unknown \"bf17\"");
  expect_contains(error(",attention", ",flash9"), "runs.csv:2: attention: unknown \"flash9\"");
  EXPECT_EQ(error(",micro_batch", ",3"),
            "runs.csv:2: global_batch: 64 is no multiple of dp·micro_batch = 24");
  EXPECT_EQ(message_of([] { runs("model,seq\nllama-2-7b,1\n"); }),
            "runs.csv: there is no column \"global_batch\"");
  expect_contains(message_of([] { runs("model,global_batch,iteration_s\nllama,64,5\n"); }),
                  "runs.csv:2: ");
  for (const char* time : {"0", "-1", "nan", "inf", "1e400", "5 s"}) {
    expect_contains(message_of([&] {
                      runs("model,seq,global_batch,iteration_s\nllama-2-7b,4096,64," +
                           std::string(time) + "\n");
                    }),
                    "runs.csv:2: iteration_s: ");
  }
}

TEST(Layers, AreTimesOfOneLayerInEachDirection) {
  const std::vector<Sample> read = layers(
      "model,seq,micro_batch,tp,layer,granularity,forward_s,backward_s\n"
      "llama-2-7b,4096,2,1,layer.3,,0.01,0.02\n"
      "llama-2-7b,4096,2,1,layer.3.mlp,block,,0.01\n");
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0].measured_s, 0.01);
  EXPECT_EQ(read[1].measured_s, 0.02);
  EXPECT_GT(read[1].seconds(hopper()), read[0].seconds(hopper()));
  EXPECT_LT(read[2].seconds(hopper()), read[1].seconds(hopper()));
  EXPECT_EQ(read[0].group, read[1].group);
}

TEST(Layers, TellWhereATableIsWrong) {
  const auto error = [](const std::string& columns, const std::string& cells) {
    return message_of(
        [&] { layers("model,seq," + columns + "\nllama-2-7b,4096," + cells + "\n"); });
  };
  expect_contains(error("layer,forward_s", "layer.33,1"),
                  "layers.csv:2: layer: the model has no \"layer.33\" (did you mean \"layer.");
  EXPECT_EQ(error("layer,forward_s", "layer.3,"),
            "layers.csv:2: forward_s: a layer has this or backward_s, or both");
  EXPECT_EQ(error("layer,granularity,forward_s", "layer.3,blocks,1"),
            "layers.csv:2: granularity: unknown \"blocks\" (did you mean \"block\"?)");
  EXPECT_EQ(error("forward_s", "1"), "layers.csv: there is no column \"layer\"");
}

}  // namespace
}  // namespace nestplan::calibrate
