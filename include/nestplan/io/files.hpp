#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nestplan/cost/restart.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/model/plan_outline.hpp"

namespace nestplan::io {

/// Readers throw InvalidInput with "file: field: what is wrong (what would be right)" for content
/// and for files that cannot be opened, naming the nearest that exists; IoError if the system fails
/// while reading. Unknown keys are errors.

/// `parse_…` read the text of a file, which `file` names in messages; `read_…` read the file.

/// The whole of a file.
std::string read_text(const std::filesystem::path& path);

/// Reads a `nestplan.graph/1` file. Counts come out quantised (see model::Graph).
model::Graph read_graph(const std::filesystem::path& path);
model::Graph parse_graph(std::string_view text, const std::string& file);

/// Reads a `nestplan.cluster/1` file.
model::Cluster read_cluster(const std::filesystem::path& path);
model::Cluster parse_cluster(std::string_view text, const std::string& file);

/// Reads a `nestplan.plan/1` file, written by `plan` or by hand, for `graph`. Only `strategy` and
/// per stage `layers` and `strategy` are needed; costs, if present, are ignored.
model::PartialPlan read_plan(const std::filesystem::path& path, const model::Graph& graph);
model::PartialPlan parse_plan(std::string_view text, const std::string& file,
                              const model::Graph& graph);

/// Reads of a `nestplan.plan/1` file where its stages stand and what else has to be known to run
/// it, for which no graph is needed; of an infeasible plan only why. Plans that leave positions or
/// degrees open are refused.
model::PlanOutline read_plan_outline(const std::filesystem::path& path);
model::PlanOutline parse_plan_outline(std::string_view text, const std::string& file);

/// A graph as a `nestplan.graph/1` document; `read_graph` of it gives the same graph back.
std::string graph_to_json(const model::Graph& graph);

/// The framework that a plan is for, and what has to be set there.
struct PlanTarget {
  struct Setting {
    std::string key, value, why;
    bool operator==(const Setting&) const = default;
  };
  std::string name;
  std::string version;  ///< of the rules
  std::vector<Setting> settings;
};

/// Long options of `plan` and their values, as they are written; a switch has an empty one.
using SearchOptions = std::vector<std::pair<std::string, std::string>>;

/// What is said beside a plan.
struct PlanNotes {
  /// Rows of the tables over the vocabulary, as the model has them and as they are padded: another
  /// tp may make other shapes, which saved weights do not fit.
  struct Vocabulary {
    std::int64_t rows = 0;
    std::int64_t padded_rows = 0;
  };
  /// How the plan's ranks lie on the cluster.
  struct Placement {
    struct Groups {
      std::string kind;  ///< "tp", "cp", "ep", "dp", "edp", "pp"
      std::int64_t groups = 0;
      std::int64_t members = 0;  ///< of the largest
      /// Domains of the network, innermost first, with the groups for which each is just enough.
      std::vector<std::pair<std::string, std::int64_t>> domains;
      std::optional<std::int64_t> mixed_rails;  ///< groups that change rails, where there are some
    };
    std::string rank_order;
    std::int64_t hosts = 0;  ///< with a rank
    std::int64_t idle_hosts = 0;
    std::string host_list;           ///< of hosts with a rank, as Slurm writes it; may be empty
    std::int64_t segment_span = 0;   ///< nodes that an expert group spans, if more than one
    std::int64_t segment_nodes = 0;  ///< that Slurm has to keep together; 0: none
    std::vector<Groups> groups;
  };
  std::optional<Vocabulary> vocabulary;
  std::optional<Placement> placement;
  std::optional<cost::Restart> restart;
  std::vector<std::string> remarks;
  /// With the same inputs, these find the plan again. Nothing: no search found it.
  std::optional<SearchOptions> search_options;
};

/// A plan as a `nestplan.plan/1` document, two-space indented, ending in a newline. The same plan
/// gives the same bytes, `search` aside. Rates per device count the devices in use, not idle ones.
/// What is unknown is null: throughput in tokens or FLOPs when the graph does not tell them, times
/// and strategy of a search that found no plan.
///
/// `global_batch` is PlanOptions::global_batch, in sequences. Without it, the batch is taken to be
/// dp·micro_batch·microbatches, which is more than was asked for when batches are uneven. A stage
/// has `shard` with a ZeRO stage above 0, and `chunks` with interleaving.
std::string plan_to_json(const model::Plan& plan, const model::Graph& graph,
                         const model::Cluster& cluster,
                         std::optional<std::int64_t> global_batch = std::nullopt,
                         const std::optional<PlanTarget>& target = std::nullopt,
                         const PlanNotes& notes = {});

/// What a JSON file is: its `format`, such as "nestplan.graph/1", or "huggingface" for a model
/// config. Throws InvalidInput if it is none of ours.
std::string detect_format(const std::filesystem::path& path);
std::string detect_format(std::string_view text, const std::string& file);

/// A file to be written in one piece: the constructor proves that it can be written (before a long
/// search) without touching an existing file of that name; `commit` writes aside, flushes and
/// renames. Nothing else is ever left behind. Symbolic links are followed; pipes, devices and open
/// files under /proc and /dev/fd, which cannot be replaced, are written to directly.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws IoError naming the path and the system's reason.
  void commit(const std::string& content);

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
};

}  // namespace nestplan::io
