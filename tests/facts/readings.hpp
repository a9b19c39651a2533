#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "facts/run.hpp"
#include "facts/table.hpp"
#include "nestplan/model/architecture.hpp"

namespace nestplan::facts {

/// What a source has measured.
enum class Quantity : std::uint8_t {
  kStates,       ///< weights, gradients, optimizer
  kActivations,  ///< kept for the backward pass, or with what is held beside at the worst moment
  kAllocated,    ///< all that the framework holds at the worst moment
  kReserved,     ///< that, with the gaps of its allocator
  kDriver        ///< that, with what the driver and the communication library hold
};
const char* to_string(Quantity quantity);

/// What a row says about memory, or why there are no words for it in the model.
struct Reading {
  std::string source;
  std::string name;      ///< the source's, with a number
  std::string left_out;  ///< why; empty if there is a prediction
  Quantity quantity = Quantity::kDriver;
  double published_bytes = 0;  ///< 0: it did not fit
  double predicted_bytes = 0;
  std::string inferred;  ///< what the source does not state; if empty, the error counts
  std::optional<Run> run;
  double device_bytes = 0;  ///< that a process can have of the device; 0: not known

  double error() const { return predicted_bytes / published_bytes - 1; }
};

/// Architectures by their published names.
class Catalogue {
 public:
  /// Throws IoError or InvalidInput.
  explicit Catalogue(const std::filesystem::path& path);

  /// Throws InvalidInput for a name that is not there.
  const model::Architecture& at(const std::string& name) const;

 private:
  std::map<std::string, model::Architecture> architectures_;
};

/// Device memory that no tensor gets. 1.6 GB are the CUDA context (1573 MiB on an A100,
/// train/tr11-176B-ml/chronicles-prequel.md in bigscience-workshop/bigscience), 0.7 GB a
/// communicator (688 MiB for more than two A100s, issue 964 of NVIDIA/nccl), of which there is one
/// for the whole job beside those of its kinds of groups.
model::MemoryReserve usual_reserve();

/// Bytes that a process can have of a device of this name; 0 for an unknown one.
double device_bytes(const std::string& name);

/// The rows of memory.csv, read as their sources mean them.
std::vector<Reading> memory_readings(const std::filesystem::path& facts);

/// The rows of throughput.csv whose configuration is complete: runs that fitted, and those of tier
/// OOM, which did not.
std::vector<Reading> throughput_readings(const std::filesystem::path& facts);

}  // namespace nestplan::facts
