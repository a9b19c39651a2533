#include "cli/batch_board.hpp"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNoMore = -1;
constexpr std::chrono::milliseconds kGlance{1};

/// Requests carry the last report as JSON, or no byte; replies the number of a job.
std::vector<std::byte> pack(const std::optional<JobReport>& report) {
  if (!report) return {};
  const Json json{{"job", report->job},
                  {"stopped", report->stopped},
                  {"remarks", report->remarks},
                  {"result", to_json(report->result)}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::optional<JobReport> unpack(const std::vector<std::byte>& bytes) {
  if (bytes.empty()) return std::nullopt;
  const Json json =
      Json::parse(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return JobReport{json.at("job").get<std::int64_t>(), result_from_json(json.at("result")),
                   json.at("stopped").get<bool>(),
                   json.at("remarks").get<std::vector<std::string>>()};
}

}  // namespace

BatchBoard::BatchBoard(std::optional<mpi::Comm> leaders, std::deque<std::int64_t> queue,
                       std::function<void(const JobReport&)> on_report)
    : leaders_(std::move(leaders)), queue_(std::move(queue)), on_report_(std::move(on_report)) {}

void BatchBoard::take_in(const JobReport& report) {
  on_report_(report);
  if (report.stopped) stop();
}

std::int64_t BatchBoard::take_job() {
  if (queue_.empty()) return kNoMore;
  const std::int64_t job = queue_.front();
  queue_.pop_front();
  return job;
}

void BatchBoard::answer(int leader) {
  if (const auto report = unpack(leaders_->receive(leader, mpi::Tag::kRequest))) take_in(*report);
  const std::int64_t job = take_job();
  if (job == kNoMore) ++dismissed_;
  leaders_->send(std::as_bytes(std::span(&job, 1)), leader, mpi::Tag::kReply);
}

void BatchBoard::serve() {
  if (!leaders_) return;
  if (keeps()) {
    while (const auto leader = leaders_->probe(mpi::Tag::kRequest)) answer(*leader);
  } else if (leaders_->probe(mpi::Tag::kFinish)) {
    leaders_->receive(0, mpi::Tag::kFinish);
    stopping_ = true;
  }
}

void BatchBoard::stop() {
  if (std::exchange(stopping_, true) || !keeps()) return;
  queue_.clear();
  constexpr std::byte kWord{};
  for (int leader = 1; leaders_ && leader < leaders_->size(); ++leader) {
    leaders_->send(std::span(&kWord, 1), leader, mpi::Tag::kFinish);
  }
}

std::optional<std::int64_t> BatchBoard::next(const std::optional<JobReport>& last) {
  std::int64_t job = kNoMore;
  if (keeps()) {
    if (last) take_in(*last);
    serve();
    job = take_job();
  } else {
    leaders_->send(pack(last), 0, mpi::Tag::kRequest);
    const std::vector<std::byte> reply = leaders_->receive(0, mpi::Tag::kReply);
    std::memcpy(&job, reply.data(), sizeof job);
  }
  if (job == kNoMore) return std::nullopt;
  return job;
}

void BatchBoard::close() {
  if (!leaders_ || !keeps()) return;
  while (dismissed_ + 1 < leaders_->size()) {
    serve();
    std::this_thread::sleep_for(kGlance);
  }
}

}  // namespace nestplan::cli
