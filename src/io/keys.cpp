#include "nestplan/io/keys.hpp"

#include "nestplan/model/device.hpp"

namespace nestplan::io {
namespace {

/// Of an object `name` with the parameters of a device's model.
KeySet parameter_keys(const char* name) {
  KeySet keys{name, {}, {}};
  for (const model::DeviceParameter& parameter : model::device_parameters()) {
    keys.optional.emplace_back(parameter.name);
  }
  return keys;
}

}  // namespace

namespace graph_keys {
const KeySet kGraph{
    "",
    {"format", "name", "strategies", "layers", "edges"},
    {"provenance", "tokens_per_sample", "model_flops_per_sample", "ties", "dimensions"}};
const KeySet kStrategy{
    "strategy", {"id", "tp"}, {"sp", "cp", "ep", "etp", "micro_batch", "context"}};
const KeySet kLayer{"layer", {"id", "costs"}, {"counted"}};
const KeySet kCost{"cost",
                   {"forward_s", "backward_s", "parameters", "activation_bytes"},
                   {"expert_parameters", "checkpoint_bytes", "collectives", "selective_bytes",
                    "selective_s", "working_bytes", "table_parameters"}};
const KeySet kCollective{"collective", {"phase", "op", "group", "bytes"}, {}};
const KeySet kEdge{"edge", {"from", "to", "bytes"}, {}};
const KeySet kTie{"tie", {"layers", "parameters"}, {}};
const KeySet kDimensions{
    "dimensions",
    {},
    {"heads", "kv_heads", "hidden", "ffn", "vocabulary", "sequence", "blocks", "experts",
     "expert_ffn", "encoder_blocks", "windows", "sinks", "predictions", "kind"}};
}  // namespace graph_keys

namespace device_keys {
const KeySet kDevice{
    "",
    {"format", "name", "memory", "peak"},
    {"provenance", "reserved", "memory_bandwidth", "model", "uncertainty", "sources"}};
const KeySet kModel = parameter_keys("model");
}  // namespace device_keys

namespace cluster_keys {
const KeySet kCluster{
    "",
    {"format", "name", "device", "network"},
    {"provenance", "host_memory", "hosts", "devices_per_host", "other_devices", "unavailable"}};
const KeySet kOtherDevice{"otherDevice",
                          {},
                          {"name", "memory", "peak", "reserved", "memory_bandwidth", "speed",
                           "file", "model", "hosts", "devices", "places"}};
const KeySet kUnavailable{"unavailable", {}, {"hosts", "devices", "places"}};
const KeySet kDevice{
    "device", {"name", "memory", "peak"}, {"reserved", "memory_bandwidth", "model"}};
const KeySet kDeviceOfFile{
    "deviceOfFile", {"file"}, {"name", "memory", "peak", "reserved", "memory_bandwidth", "model"}};
const KeySet kDeviceModel = parameter_keys("deviceModel");
const KeySet kNetwork{"network", {"kind", "levels"}, {"collectives", "devices"}};
const KeySet kLevel{
    "level",
    {"fanout", "bandwidth", "latency"},
    {"name", "oversubscription", "nics", "background", "rails", "in_network_reduction"}};
const KeySet kTorus{"torus", {"kind", "dimensions"}, {"collectives", "host", "cube", "slices"}};
const KeySet kDimension{
    "dimension", {"size", "bandwidth", "latency"}, {"name", "wrap", "background"}};
const KeySet kSlices{"slices", {"count", "bandwidth", "latency"}, {}};
const KeySet kLinks{"links", {"kind", "devices"}, {"collectives", "switches", "links", "matrix"}};
const KeySet kLinkDevice{"linkDevice", {}, {"name", "host", "count"}};
const KeySet kLink{
    "link", {"bandwidth", "latency"}, {"between", "from", "to", "count", "complete"}};
const KeySet kMatrix{"matrix", {"bandwidth", "latency"}, {"unit"}};
const KeySet kSlurm{
    "slurm", {"kind", "topology", "devices_per_node", "node", "levels"}, {"nodes", "collectives"}};
const KeySet kSlurmLevel{
    "slurmLevel",
    {"bandwidth", "latency"},
    {"name", "oversubscription", "nics", "background", "in_network_reduction"}};
}  // namespace cluster_keys

namespace plan_keys {
const KeySet kPlan{
    "",
    {"format", "strategy", "stages"},
    {"status",        "reason",    "objective",  "model",       "cluster",   "iteration_time_s",
     "lower_bound_s", "gap",       "throughput", "batch",       "devices",   "time_split",
     "target",        "shortfall", "vocabulary", "restart",     "remarks",   "fewest_devices",
     "what_if",       "top",       "margins",    "explanation", "placement", "search"}};
const KeySet kThroughput{
    "throughput",
    {},
    {"samples_per_s", "tokens_per_s", "tokens_per_s_per_device", "model_tflops_per_device"}};
const KeySet kStrategy{
    "strategy",
    {"dp"},
    {"dp_inner", "dp_outer", "pp", "vpp", "micro_batch", "microbatches", "schedule", "overlap"}};
const KeySet kOverlap{"overlap", {}, {"tensor", "context", "expert", "shards", "sync", "pipeline"}};
const KeySet kBatch{"batch", {}, {"global_batch", "tokens"}};
const KeySet kDevices{"devices", {}, {"total", "used", "idle"}};
const KeySet kStage{"stage",
                    {"layers", "strategy"},
                    {"tp", "cp", "ep", "position", "devices", "recompute", "zero", "shard",
                     "weight_gathers", "chunks", "time", "memory"}};
const KeySet kTime{"time",
                   {},
                   {"total_s", "forward_s", "backward_s", "recompute_s", "receive_s",
                    "gradient_receive_s", "zero_s", "sync_s", "update_s", "collective_s", "tie_s",
                    "hidden_s", "hidden_transfer_s", "hidden_sync_s"}};
const KeySet kMemory{
    "memory",
    {},
    {"total_bytes", "state_bytes", "activation_bytes", "reserve_bytes", "weight_bytes",
     "gradient_bytes", "optimizer_bytes", "gathered_bytes", "in_flight_bytes", "working_bytes",
     "context_bytes", "communicator_bytes", "table_bytes", "margin_bytes", "limit_bytes"}};
const KeySet kTarget{"target", {"name"}, {"version", "settings"}};
const KeySet kSetting{"setting", {"key", "value"}, {"why"}};
const KeySet kShortfall{
    "shortfall", {"limit"}, {"required_bytes", "available_bytes", "state_bytes", "least_devices"}};
const KeySet kVocabulary{"vocabulary", {}, {"rows", "padded_rows"}};
const KeySet kRestart{"restart",
                      {},
                      {"ranks_per_node", "whole_bytes_per_rank", "whole_bytes_per_node",
                       "shard_bytes_per_node", "host_memory_bytes"}};
const KeySet kFewestDevices{"fewest_devices", {"devices"}, {"of", "proven", "too_few"}};
const KeySet kTooFew{"too_few", {"devices", "reason"}, {}};
const KeySet kWhatIf{"what_if",
                     {"change"},
                     {"status", "iteration_time_s", "gain", "memory_bytes", "in_margin", "reason"}};
const KeySet kTop{"top",
                  {},
                  {"iteration_time_s", "micro_batch", "dp", "pp", "vpp", "tp", "cp", "ep",
                   "dp_inner", "devices", "memory_bytes", "time_split"}};
const KeySet kTimeSplit{"time_split",
                        {},
                        {"compute_s", "recompute_s", "collective_s", "pipeline_s",
                         "data_parallel_s", "update_s", "bubble_s"}};
const KeySet kSearch{
    "search", {}, {"seconds", "ranks", "configurations", "tables", "cells", "rejected", "options"}};
const KeySet kPlacement{
    "placement",
    {},
    {"rank_order", "hosts", "idle_hosts", "host_list", "segment_span", "segment_nodes", "groups"}};
const KeySet kPlacedGroups{
    "placed_groups", {"kind"}, {"groups", "members", "domains", "mixed_rails"}};
}  // namespace plan_keys

namespace fx_keys {
const KeySet kFx{"", {"format", "name", "micro_batches", "constants", "nodes", "outputs"}, {}};
const KeySet kConstant{"constant", {"name", "shape", "dtype"}, {"causal", "trained"}};
const KeySet kNode{"node", {"name", "type", "module", "inputs", "dtype", "shapes"}, {"attributes"}};
const KeySet kAttributes{"attributes", {}, {"num_heads", "batch_first", "is_causal"}};
}  // namespace fx_keys

namespace chakra_keys {
const KeySet kTrace{"", {"workload_graph"}, {}};
const KeySet kNode{
    "node",
    {"Id", "Name", "NodeType"},
    {"runtime", "data_deps", "ctrl_deps", "tensor_size", "comm_type", "comm_size", "is_cpu_op"}};
}  // namespace chakra_keys

std::vector<KeySet> known_keys(const std::string& format) {
  if (format == kGraphFormat) {
    using namespace graph_keys;
    return {kGraph, kStrategy, kLayer, kCost, kCollective, kEdge, kTie, kDimensions};
  }
  if (format == kClusterFormat) {
    using namespace cluster_keys;
    return {kCluster,    kDevice, kDeviceOfFile, kDeviceModel, kOtherDevice, kUnavailable,
            kNetwork,    kLevel,  kTorus,        kDimension,   kSlices,      kLinks,
            kLinkDevice, kLink,   kMatrix,       kSlurm,       kSlurmLevel};
  }
  if (format == kFxFormat) {
    using namespace fx_keys;
    return {kFx, kConstant, kNode, kAttributes};
  }
  if (format == kDeviceFormat) return {device_keys::kDevice, device_keys::kModel};
  if (format == kPlanFormat) {
    using namespace plan_keys;
    return {kPlan,    kThroughput,    kStrategy,     kBatch,   kDevices,    kStage,
            kTime,    kMemory,        kTarget,       kSetting, kVocabulary, kShortfall,
            kRestart, kFewestDevices, kTooFew,       kWhatIf,  kTop,        kTimeSplit,
            kSearch,  kPlacement,     kPlacedGroups, kOverlap};
  }
  return {};
}

}  // namespace nestplan::io
