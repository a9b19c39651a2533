#include "cli/search_file.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "cli/console.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr const char* kPlan = "run/plan";
constexpr const char* kState = "search/rung";

/// Whether there is a generation of it. An empty file is none: its name was reserved.
bool is_there(const std::string& path) {
  std::error_code error;
  const auto has_bytes = [&](const std::filesystem::path& file) {
    return std::filesystem::is_regular_file(file, error) &&
           std::filesystem::file_size(file, error) > 0;
  };
  return has_bytes(path) || has_bytes(path + ".1");
}

}  // namespace

SearchFile::SearchFile(const std::string& path, const Ranks& ranks, bool must_exist)
    : path_(path), ranks_(ranks) {
  const mpi::Comm* const comm = ranks.size() > 1 ? &ranks.world() : nullptr;
  bool there = false;
  ranks.together([&] {
    if (ranks.speaks()) there = is_there(path);
    if (ranks.speaks() && must_exist && !there) {
      io::read_text(path);  // says what is wrong with the name
      throw InvalidInput(fmt::format("{}: is empty, no checkpoint", path));
    }
  });
  ranks.together([&] { file_.emplace(path, comm); });
  if (ranks.agree(there ? ExitCode::kDone : ExitCode::kStopped) == ExitCode::kStopped) return;
  ranks.together([&] {
    reader_ = io::open_checkpoint(path, comm, [](const std::string& warning) {
      print_message(fmt::format("nestplan: warning: {}", warning));
    });
  });
}

std::optional<SearchRecord> SearchFile::record() const {
  if (!reader_) return std::nullopt;
  try {
    return SearchRecord::read(*reader_);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", reader_->path().string(), error.what()));
  }
}

const solver::SnapshotReader* SearchFile::state() const {
  return reader_ && reader_->has(kState) ? reader_.get() : nullptr;
}

std::optional<std::string> SearchFile::document() const {
  if (!reader_ || !reader_->has(kPlan)) return std::nullopt;
  return reader_->text(kPlan);
}

void SearchFile::begin() {
  if (!reader_) write([](solver::SnapshotWriter&) {});
}

std::int64_t SearchFile::save(const std::function<void(solver::SnapshotWriter&)>& state) {
  return write(state);
}

void SearchFile::finish(const std::string& document) {
  reader_.reset();
  // Twice, so that the generation before is as good.
  for (int generation = 0; generation < 2; ++generation) {
    write([&](solver::SnapshotWriter& out) { out.text(kPlan, document); });
  }
}

std::int64_t SearchFile::write(const std::function<void(solver::SnapshotWriter&)>& more) {
  std::int64_t bytes = 0;
  ranks_.together([&] {
    bytes = file_->write([&](solver::SnapshotWriter& out) {
      record_.write(out);
      more(out);
    });
  });
  return bytes;
}

model::Plan plan_of(const std::string& document, const std::string& file, const Setup& setup) {
  using Json = nlohmann::ordered_json;
  const Json json = Json::parse(document);
  model::Plan plan;
  plan.objective = setup.problem.options.objective;
  if (json.at("status") == model::to_string(model::Status::kInfeasible)) {
    plan.reason = json.at("reason").get<std::string>();
  } else {
    const model::PartialPlan saved = io::parse_plan(document, file, setup.problem.graph);
    cost::PlacedPlan placed{saved.dp, saved.dp_inner.value(), {}};
    for (const model::PartialStage& stage : saved.stages) {
      placed.stages.push_back({stage.layers, stage.strategy, stage.position.value(),
                               stage.recompute.value(), stage.zero.value(),
                               stage.shard.value_or(model::ShardSpan::kAll), stage.chunks});
    }
    plan = cost::evaluate(setup.problem, *setup.network, placed);
    plan.lower_bound_s = plan.iteration_time_s;
    if (plan.iteration_time_s != json.at("iteration_time_s").get<double>()) {
      throw InvalidInput(
          fmt::format("{}: its plan takes another time than it says: made by another build", file));
    }
  }
  const Json& search = json.at("search");
  search.at("seconds").get_to(plan.search.seconds);
  search.at("ranks").get_to(plan.search.ranks);
  search.at("configurations").get_to(plan.search.configurations);
  search.at("tables").get_to(plan.search.tables);
  search.at("cells").get_to(plan.search.cells);
  for (const auto& [reason, count] : search.at("rejected").items()) {
    plan.search.rejected.emplace_back(reason, count.get<std::int64_t>());
  }
  return plan;
}

}  // namespace nestplan::cli
