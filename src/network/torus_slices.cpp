#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "nestplan/network/torus.hpp"

namespace nestplan::network {
namespace {

std::string text_of(std::span<const std::int64_t> box) {
  return fmt::format("{}", fmt::join(box, "x"));
}

std::int64_t product(std::span<const std::int64_t> list) {
  return std::accumulate(list.begin(), list.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::optional<std::string> slice_problem(const model::TorusSpec& spec,
                                         std::span<const std::int64_t> box) {
  std::vector<std::int64_t> whole;
  for (const model::TorusDimension& dimension : spec.dimensions) whole.push_back(dimension.size);
  if (box.size() != whole.size()) {
    return fmt::format("{} has {} dimensions, but the torus of {} has {}", text_of(box), box.size(),
                       text_of(whole), whole.size());
  }
  for (std::size_t d = 0; d < box.size(); ++d) {
    if (box[d] < 1 || box[d] > whole[d]) {
      return fmt::format("{} does not lie in {}: {} must be 1 to {}", text_of(box), text_of(whole),
                         spec.dimensions[d].name, whole[d]);
    }
  }
  std::vector<std::int64_t> enlarged(box.begin(), box.end());
  std::vector<std::string> cut;
  for (std::size_t d = 0; d < spec.host.size(); ++d) {
    if (box[d] % spec.host[d] == 0) continue;
    enlarged[d] = (box[d] / spec.host[d] + 1) * spec.host[d];
    cut.push_back(spec.dimensions[d].name);
  }
  if (cut.empty()) return std::nullopt;
  return fmt::format("{} cuts hosts of {} in {} (the next larger that does not: {})", text_of(box),
                     text_of(spec.host), fmt::join(cut, " and "), text_of(enlarged));
}

std::optional<std::string> slice_degrees_problem(std::int64_t slices, std::int64_t slice_chips,
                                                 std::span<const std::int64_t> slow,
                                                 std::span<const std::int64_t> fast) {
  if (const std::int64_t over = product(slow); over != slices) {
    return fmt::format("degrees over the network between slices make {}, but there {} {} slice{}",
                       over, slices == 1 ? "is" : "are", slices, slices == 1 ? "" : "s");
  }
  if (const std::int64_t inside = product(fast); inside != slice_chips) {
    return fmt::format("degrees inside slices make {}, but a slice has {} chips", inside,
                       slice_chips);
  }
  return std::nullopt;
}

}  // namespace nestplan::network
