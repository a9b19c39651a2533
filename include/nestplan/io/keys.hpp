#pragma once

#include <string>
#include <vector>

namespace nestplan::io {

/// The keys of one kind of JSON object. Readers refuse every other key, and the schemas in
/// inputs/schemas list the same ones.
struct KeySet {
  std::string name;  ///< its `$defs` entry in the schema; empty for the whole document
  std::vector<std::string> required;
  std::vector<std::string> optional;
};

/// Objects of a `nestplan.graph/1` document.
namespace graph_keys {
extern const KeySet kGraph, kStrategy, kLayer, kCost, kCollective, kEdge, kTie, kDimensions;
}

/// Objects of a `nestplan.cluster/1` document.
namespace cluster_keys {
extern const KeySet kCluster, kDevice, kDeviceOfFile, kDeviceModel, kOtherDevice, kUnavailable,
    kNetwork, kLevel, kTorus, kDimension, kSlices, kLinks, kLinkDevice, kLink, kMatrix, kSlurm,
    kSlurmLevel;
}

/// Objects of a `nestplan.device/1` document.
namespace device_keys {
extern const KeySet kDevice, kModel;
}

/// Objects of a `nestplan.plan/1` document.
namespace plan_keys {
extern const KeySet kPlan, kThroughput, kStrategy, kOverlap, kBatch, kDevices, kStage, kTime,
    kMemory, kTarget, kSetting, kVocabulary, kShortfall, kRestart, kFewestDevices, kTooFew, kWhatIf,
    kTop, kTimeSplit, kSearch, kPlacement, kPlacedGroups;
}

/// Objects of a `nestplan.fx/1` document.
namespace fx_keys {
extern const KeySet kFx, kConstant, kNode, kAttributes;
}

/// Objects of the JSON that MLCommons' feeder of Chakra traces reads, in which other keys may be.
namespace chakra_keys {
extern const KeySet kTrace, kNode;
}

inline constexpr const char* kGraphFormat = "nestplan.graph/1";
inline constexpr const char* kClusterFormat = "nestplan.cluster/1";
inline constexpr const char* kDeviceFormat = "nestplan.device/1";
inline constexpr const char* kPlanFormat = "nestplan.plan/1";
inline constexpr const char* kFxFormat = "nestplan.fx/1";
inline constexpr const char* kBatchFormat = "nestplan.batch/1";

/// All key sets of a format; empty for a format without a reader.
std::vector<KeySet> known_keys(const std::string& format);

}  // namespace nestplan::io
