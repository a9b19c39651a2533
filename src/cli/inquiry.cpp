#include "cli/inquiry.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "cli/console.hpp"
#include "cli/plan_search.hpp"

namespace nestplan::cli {

Inquiry::Inquiry(const Flags& flags, const Ranks& ranks)
    : flags_(flags), ranks_(ranks), start_(std::chrono::steady_clock::now()) {
  ranks.together([&] {
    if (ranks.speaks()) files_ = read_inputs(flags);
  });
}

Setup Inquiry::load(const Flags& flags, const Change& change) const {
  Setup setup = load_setup(flags, files_);
  if (change) {
    change(setup.problem);
    setup.network = network::make_network(setup.problem.cluster);
  }
  return setup;
}

Finding Inquiry::ask(const Flags& flags, const Change& change, bool any_plan) const {
  Finding finding;
  ranks_.together([&] {
    if (ranks_.speaks()) finding.setup = load(flags, change);
  });
  if (ranks_.size() > 1) share_setup(ranks_.world(), finding.setup);
  finding.plan = search(flags, finding.setup, ranks_, nullptr, {left_s(), any_plan});
  return finding;
}

std::int64_t Inquiry::agree(std::int64_t mine) const {
  if (ranks_.size() > 1) {
    ranks_.world().broadcast(std::as_writable_bytes(std::span(&mine, 1)), 0);
  }
  return mine;
}

bool Inquiry::over() const {
  const std::int64_t signal = stop_requested() ? 1 : 0;  // it may have reached any rank
  const std::int64_t somewhere = ranks_.size() > 1 ? ranks_.world().max(signal) : signal;
  return somewhere != 0 || left_s() <= 0;
}

double Inquiry::left_s() const {
  if (!flags_.time_limit) return std::numeric_limits<double>::infinity();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
  constexpr double kMostSeconds = 1e9;
  const double left_us = std::clamp(*flags_.time_limit - spent.count(), 0.0, kMostSeconds) * 1e6;
  return static_cast<double>(agree(std::llround(left_us))) / 1e6;
}

}  // namespace nestplan::cli
