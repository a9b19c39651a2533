#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/model.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/mpi/mpi.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::cli {

/// What a search or an evaluation works on.
struct Setup {
  model::Problem problem;
  std::unique_ptr<network::Network> network;
  std::string precision;
  std::int64_t vocabulary_multiple = 0;  ///< tables are padded to a multiple of it; 0: not known
  std::vector<std::string> remarks;      ///< for stderr: what was asked for and could not be had
  std::optional<io::SearchOptions> search_options;  ///< nothing: a plan that is given is judged
};

/// A file as it was read.
struct InputFile {
  std::string path;
  std::string text;
};

/// What a search is about: the files that the flags name, word for word.
struct InputFiles {
  InputFile subject;  ///< model or graph
  InputFile cluster;
};

/// Degrees that a model's graph must offer; empty lists: those of the flags, or the defaults.
struct NeededDegrees {
  std::vector<std::int64_t> tp, cp, ep, etp;
  std::vector<model::ContextForm> context_forms;
  std::vector<std::int64_t> micro_batches;
};

/// Reads the files that a search needs. Throws InvalidConfig, InvalidInput or IoError naming flag
/// or file.
InputFiles read_inputs(const Flags& flags);

/// Makes sense of them, and gathers the options of the search. The flags only say which is a model
/// and which a graph. Throws like `read_inputs`.
Setup load_setup(const Flags& flags, const InputFiles& files, const NeededDegrees& needed = {});
Setup load_setup(const Flags& flags, const NeededDegrees& needed = {});

/// The first rank's setup on all ranks of `comm`, as far as a search takes part in it there:
/// problem and network. *Collective.*
void share_setup(const mpi::Comm& comm, Setup& setup);

/// The model that `config`, read from `file`, describes; with `--no-mtp` without its modules of
/// multi-token prediction. Throws InvalidInput, or InvalidConfig if there are none to leave out.
model::Model model_of(const Flags& flags, std::string_view config,
                      const std::filesystem::path& file);

/// Tokens per sequence: `--seq`, or 4096 or the model's longest if that is less; 0 for a model
/// without sequences. Throws InvalidConfig if such a one is given a `--seq`.
std::int64_t sequence_of(const Flags& flags, const model::Model& model);

/// What the flags say about the shape of a model's graph: `--seq`, `--tokens`, `--granularity`.
cost::ProfileOptions shape_options(const Flags& flags, const model::Model& model);

}  // namespace nestplan::cli
