#include "network/torus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::network {
namespace {

using model::CollectiveOp;

using util::idx;

/// The least number of three significant bits that is not below `n ≥ 1`.
std::int64_t rounded(std::int64_t n) {
  const auto value = static_cast<std::uint64_t>(n);
  const int spare = std::max(0, static_cast<int>(std::bit_width(value)) - 3);
  return static_cast<std::int64_t>(((value - 1) >> spare) + 1) << spare;
}

/// Position of rounded(n) among all such numbers, from 0.
std::int32_t rounded_rank(std::int64_t n) {
  const auto value = static_cast<std::uint64_t>(rounded(n));
  const int spare = std::max(0, static_cast<int>(std::bit_width(value)) - 3);
  return static_cast<std::int32_t>(4 * spare + static_cast<int>(value >> spare)) - 1;
}

/// A row of a group, or a ring through all of it.
struct Row {
  std::int64_t members = 1;
  double bandwidth = 0;  ///< w
  double hop_s = 0;      ///< s·a
  bool closed = false;
  bool switched = false;

  bool both_ways() const { return closed && !switched; }
  double gather_bandwidth() const { return both_ways() ? 2 * bandwidth : bandwidth; }
  double gather_fixed_s() const {
    return static_cast<double>(both_ways() ? members / 2 : members - 1) * hop_s;
  }
  /// Of an all-to-all.
  double exchange_per_byte_s() const {
    const std::int64_t middle = members / 2 * ((members + 1) / 2);  // ⌊n²/4⌋
    const std::int64_t parts = switched ? members - 1 : middle;
    return static_cast<double>(parts) / (static_cast<double>(members) * gather_bandwidth());
  }
};

using Rows = std::vector<Row>;

Row ring_of(const Rows& rows) {
  if (rows.size() == 1) return rows.front();
  Row ring{1, std::numeric_limits<double>::infinity(), 0, false, false};
  std::array<std::int64_t, kMostTorusDimensions> members{};
  std::array<bool, kMostTorusDimensions> closed{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    members[i] = rows[i].members;
    closed[i] = rows[i].closed;
    ring.members *= rows[i].members;
    ring.bandwidth = std::min(ring.bandwidth, rows[i].bandwidth);
    ring.hop_s = std::max(ring.hop_s, rows[i].hop_s);
  }
  ring.closed =
      has_cycle(std::span(members).first(rows.size()), std::span(closed).first(rows.size()));
  return ring;
}

AffineTime gather_along(const Row& row) {
  const auto n = static_cast<double>(row.members);
  return {row.gather_fixed_s(), (n - 1) / n / row.gather_bandwidth()};
}

AffineTime gather_dimension_wise(Rows rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tuple(b.gather_bandwidth(), a.members) <
           std::tuple(a.gather_bandwidth(), b.members);
  });
  AffineTime time;
  double share = 1;
  for (const Row& row : rows) {
    const AffineTime along = gather_along(row);
    time.fixed_s += along.fixed_s;
    time.per_byte_s += share * along.per_byte_s;
    share /= static_cast<double>(row.members);
  }
  return time;
}

AffineTime gather_all_dimensions(const Rows& rows) {
  AffineTime time;
  double all = 1;
  for (const Row& row : rows) {
    time.fixed_s += row.gather_fixed_s();
    all *= static_cast<double>(row.members);
  }
  for (std::uint32_t set = 1; set < (1U << rows.size()); ++set) {
    double members = 1, bandwidth = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if ((set >> i & 1U) == 0) continue;
      members *= static_cast<double>(rows[i].members);
      bandwidth += rows[i].gather_bandwidth();
    }
    time.per_byte_s = std::max(time.per_byte_s, (members - 1) / (all * bandwidth));
  }
  return time;
}

AffineTime exchange(const Rows& rows, bool at_once) {
  AffineTime time;
  for (const Row& row : rows) {
    const double per_byte_s = row.exchange_per_byte_s();
    time.fixed_s += row.gather_fixed_s();
    time.per_byte_s =
        at_once ? std::max(time.per_byte_s, per_byte_s) : time.per_byte_s + per_byte_s;
  }
  return time;
}

}  // namespace

TorusNetwork::TorusNetwork(const model::TorusSpec& spec, std::optional<std::int64_t> limit)
    : grid_(spec), algorithm_(algorithm_of(spec.collectives)) {
  devices_ = std::min(grid_.places(), limit.value_or(grid_.places()));
  for (const model::TorusDimension& dimension : spec.dimensions) {
    const double bandwidth = dimension.bandwidth * (1 - dimension.background);
    if (!(bandwidth > 0)) {
      throw InvalidInput(
          fmt::format("network.dimensions: {} has no bandwidth", util::quoted(dimension.name)));
    }
    Link link{bandwidth, dimension.latency_s, dimension.switched, std::ssize(link_)};
    for (const Link& other : link_) {
      if (!link.switched && other.bandwidth == link.bandwidth &&
          other.latency_s == link.latency_s) {
        link.same_as = std::min(link.same_as, other.same_as);
      }
    }
    link_.push_back(link);
  }
  for (std::size_t i = 0; i < grid_.block_sizes().size(); ++i) {
    double widest = 0;
    for (std::size_t d = 0; d < link_.size(); ++d) {
      if (grid_.most_hops(d) == 0 || link_[d].switched) continue;
      widest = std::max(widest, static_cast<double>(grid_.extents(i)[d]) / link_[d].bandwidth);
    }
    widest_per_byte_s_.push_back(widest);
  }
  const auto add_domain = [this](const char* name, const std::vector<std::int64_t>& box) {
    if (box.empty()) return;
    domain_.push_back(
        {name, std::accumulate(box.begin(), box.end(), std::int64_t{1}, std::multiplies<>())});
  };
  add_domain("host", spec.host);
  add_domain("cube", spec.cube);
  if (link_.back().switched) {
    domain_.push_back({"slice", grid_.places() / spec.dimensions.back().size});
    domain_.push_back({"slices", grid_.places()});
  } else {
    domain_.push_back({"torus", grid_.places()});
  }
  find_levels();
}

TorusNetwork::Algorithm TorusNetwork::algorithm_of(const std::string& name) {
  const std::vector<std::string> names{"auto", "dimension-wise", "all-dimensions", "ring"};
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw InvalidInput(fmt::format("network.collectives: unknown algorithm {}{} (known: \"{}\")",
                                   util::quoted(name), util::hint(name, names),
                                   fmt::join(names, "\", \"")));
  }
  return static_cast<Algorithm>(found - names.begin());
}

void TorusNetwork::find_levels() {
  const bool slices = link_.back().switched;
  const std::size_t dimensions = link_.size() - (slices ? 1 : 0);
  const auto load = [this](std::size_t d, std::int64_t hops) {
    return static_cast<double>(std::min(rounded(hops), grid_.most_hops(d))) / link_[d].bandwidth;
  };
  std::vector<double> loads;
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (grid_.most_hops(d) > 0) slowest_hop_s_ = std::max(slowest_hop_s_, link_[d].latency_s);
    for (std::int64_t h = 1; h <= grid_.most_hops(d); ++h) loads.push_back(load(d, h));
  }
  util::sort_unique(loads);
  if (!loads.empty()) farthest_per_byte_s_ = loads.back();
  // Of every load, the fewest hops it is reached with and the most that do not exceed it.
  std::vector<std::int64_t> fewest(loads.size(), std::numeric_limits<std::int64_t>::max());
  std::vector<std::vector<std::int64_t>> most(loads.size(),
                                              std::vector<std::int64_t>(dimensions, 0));
  for (std::size_t d = 0; d < dimensions; ++d) {
    auto& ranks = load_of_.emplace_back(1, -1);
    for (std::int64_t h = 1; h <= grid_.most_hops(d); ++h) {
      const auto rank = std::lower_bound(loads.begin(), loads.end(), load(d, h)) - loads.begin();
      ranks.push_back(static_cast<std::int32_t>(rank));
      fewest[idx(rank)] = std::min(fewest[idx(rank)], h);
      most[idx(rank)][d] = h;
    }
  }
  for (std::size_t i = 0; i < loads.size(); ++i) {
    for (std::size_t d = 0; i > 0 && d < dimensions; ++d) {
      most[i][d] = std::max(most[i][d], most[i - 1][d]);
    }
    const std::int32_t least_rank = rounded_rank(fewest[i]);
    first_level_.push_back(static_cast<std::int32_t>(level_.size()) - least_rank);
    const std::int64_t all = std::accumulate(most[i].begin(), most[i].end(), std::int64_t{0});
    const std::int64_t offset = *std::max_element(most[i].begin(), most[i].end());
    for (std::int64_t hops = rounded(fewest[i]);; hops = rounded(hops + 1)) {
      level_.push_back({loads[i], hops, offset});
      if (hops >= all) break;
    }
  }
  if (slices && grid_.most_hops(dimensions) > 0) {
    level_.push_back({1 / link_.back().bandwidth, 1, 1, true});
    farthest_per_byte_s_ = std::max(farthest_per_byte_s_, level_.back().per_byte_s);
  }
  if (level_.empty()) level_.push_back({});
}

std::string TorusNetwork::level_name(int level) const {
  const Level& of = level_[idx(level)];
  if (of.between_slices) return "between slices";
  if (of.hops == 1) return "neighbours";
  if (of.offset >= of.hops) return fmt::format("{} hops", of.hops);
  return fmt::format("{} hops, {} in a row", of.hops, of.offset);
}

int TorusNetwork::level(std::int64_t a, std::int64_t b) const {
  std::int32_t load = -1;
  std::int64_t hops = 0;
  for (std::size_t d = 0; d < link_.size(); ++d) {
    const std::int64_t h = grid_.hops(d, grid_.coordinate(a, d), grid_.coordinate(b, d));
    if (link_[d].switched) {
      if (h > 0) return levels() - 1;
      continue;
    }
    load = std::max(load, load_of_[d][idx(h)]);
    hops += h;
  }
  return first_level_[idx(load)] + rounded_rank(hops);
}

double TorusNetwork::transfer_s(double bytes, int level, std::int64_t unit) const {
  if (bytes <= 0) return 0;
  const Level& of = level_[idx(level)];
  if (of.between_slices) return link_.back().latency_s + bytes * of.per_byte_s;
  const auto blocks = grid_.block_sizes();
  const auto block = std::lower_bound(blocks.begin(), blocks.end(), std::min(unit, devices_));
  const double per_byte_s =
      std::min(of.per_byte_s, widest_per_byte_s_[idx(block - blocks.begin())]);
  return static_cast<double>(of.hops) * slowest_hop_s_ + bytes * per_byte_s;
}

void TorusNetwork::append_starts(const PodLayout&, std::int64_t end,
                                 std::vector<std::int64_t>& starts) const {
  for (const std::int64_t block : grid_.block_sizes()) {
    starts.push_back((end + block - 1) / block * block);
  }
}

std::vector<std::string> TorusNetwork::domains() const {
  std::vector<std::string> names;
  for (const Domain& domain : domain_) names.push_back(domain.name);
  return names;
}

int TorusNetwork::innermost(std::int64_t first, std::int64_t last) const {
  int domain = 0;
  while (first / domain_[idx(domain)].block != last / domain_[idx(domain)].block) ++domain;
  return domain;
}

GroupShape TorusNetwork::shape(std::span<const std::int64_t> members) const {
  const std::optional<TorusBox> box = grid_.box(members);
  if (!box) return shape_of_ring(members);
  std::vector<std::array<std::int64_t, 4>> rows;
  for (std::size_t d = 0; d < box->size(); ++d) {
    const TorusRow& row = (*box)[d];
    if (row.members < 2) continue;
    const std::int64_t stride = link_[d].switched ? 1 : row.stride;
    rows.push_back({link_[d].same_as, row.members, stride, row.closed ? 1 : 0});
  }
  std::sort(rows.begin(), rows.end());
  GroupShape shape{innermost(members.front(), members.back()), 1};
  for (const auto& row : rows) shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

GroupShape TorusNetwork::shape_of_ring(std::span<const std::int64_t> members) const {
  std::vector<std::int64_t> offset(link_.size(), 0);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::int64_t next = members[i + 1 < members.size() ? i + 1 : 0];
    std::int64_t hops = 0;
    for (std::size_t d = 0; d < link_.size(); ++d) {
      const std::int64_t h =
          grid_.hops(d, grid_.coordinate(members[i], d), grid_.coordinate(next, d));
      auto& largest = offset[idx(link_[d].same_as)];
      largest = std::max(largest, h);
      hops += link_[d].switched ? 0 : h;
    }
    most = std::max(most, hops);
  }
  GroupShape shape{innermost(members.front(), members.back()), 0, std::ssize(members),
                   most == 0 ? 0 : rounded(most)};
  for (std::size_t d = 0; d < offset.size(); ++d) {
    if (offset[d] == 0) continue;
    shape.push_back(static_cast<std::int64_t>(d));
    shape.push_back(rounded(offset[d]));
  }
  return shape;
}

AffineTime TorusNetwork::ring_of_places(CollectiveOp op, const GroupShape& shape) const {
  const auto members = static_cast<double>(shape[2]);
  double step_s = static_cast<double>(shape[3]) * slowest_hop_s_;
  double per_byte_s = 0;
  for (std::size_t i = 4; i < shape.size(); i += 2) {
    const Link& link = link_[idx(shape[i])];
    const auto offset = static_cast<double>(shape[i + 1]);
    per_byte_s = std::max(per_byte_s, offset / link.bandwidth);
    if (link.switched) step_s += link.latency_s;
  }
  AffineTime time{(members - 1) * step_s, (members - 1) / members * per_byte_s};
  if (op == CollectiveOp::kAllToAll) {
    time.per_byte_s =
        std::min((members - 1) / 2 * per_byte_s, (members - 1) / members * farthest_per_byte_s_);
  }
  return time;
}

CollectiveTime TorusNetwork::collective(CollectiveOp op, const GroupShape& shape) const {
  if (shape.size() == 2) return {};
  std::vector<AffineTime> ways;
  if (shape[1] == 0) {
    ways.push_back(ring_of_places(op, shape));
  } else {
    Rows rows;
    for (std::size_t i = 2; i < shape.size(); i += 4) {
      const Link& link = link_[idx(shape[i])];
      const auto stride = static_cast<double>(shape[i + 2]);
      rows.push_back({shape[i + 1], link.bandwidth / stride, link.latency_s * stride,
                      shape[i + 3] != 0, link.switched});
    }
    const bool any = algorithm_ == Algorithm::kAuto;
    const bool exchanges = op == CollectiveOp::kAllToAll;
    if (any || algorithm_ == Algorithm::kAllDimensions) {
      ways.push_back(exchanges ? exchange(rows, true) : gather_all_dimensions(rows));
    }
    if (any || algorithm_ == Algorithm::kDimensionWise) {
      ways.push_back(exchanges ? exchange(rows, false) : gather_dimension_wise(rows));
    }
    if (any || algorithm_ == Algorithm::kRing) {
      const Row ring = ring_of(rows);
      ways.push_back(exchanges ? exchange({ring}, true) : gather_along(ring));
    }
  }
  CollectiveTime time;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    // A way that another one is never slower than adds nothing.
    const bool idle = std::any_of(ways.begin(), ways.end(), [&](const AffineTime& other) {
      return (&other < &ways[i] || other != ways[i]) && other.fixed_s <= ways[i].fixed_s &&
             other.per_byte_s <= ways[i].per_byte_s;
    });
    if (idle) continue;
    const double passes = op == CollectiveOp::kAllReduce ? 2 : 1;
    time.add({passes * ways[i].fixed_s, passes * ways[i].per_byte_s});
  }
  return time;
}

int TorusNetwork::link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                             std::int64_t unit) const {
  const std::int64_t shift = to - from;
  // Within blocks whose size divides the shift, all pairs are the same offset apart; and so are
  // pods in which both stages lie within a block whose size divides the pod's.
  std::int64_t step = 1;
  bool pods_alike = false;
  for (const std::int64_t block : grid_.block_sizes()) {
    if (shift % block == 0) step = block;
    if (pods.pod_size % block == 0 && to + unit <= block) pods_alike = true;
  }
  const int farthest = levels() - 1;
  int worst = 0;
  for (std::int64_t pod = 0; pod < (pods_alike ? 1 : pods.pods) && worst < farthest; ++pod) {
    const std::int64_t base = pod * pods.pod_size;
    const std::int64_t first = base + from;
    const std::int64_t end = first + std::min(unit, pods.devices - (base + to));
    for (std::int64_t a = first; a < end && worst < farthest; a = (a / step + 1) * step) {
      worst = std::max(worst, level(a, a + shift));
    }
  }
  return worst;
}

std::int64_t TorusNetwork::shape_period() const {
  // A shift by blocks of one dimension's digits alone is a translation.
  return grid_.runs().empty() ? 1 : grid_.runs().back().block;
}

bool TorusNetwork::translates(std::int64_t unit) const {
  return unit == 1 ||
         std::any_of(grid_.runs().begin(), grid_.runs().end(), [unit](const TorusGrid::Run& run) {
           return unit % run.block == 0 && run.count % (unit / run.block) == 0;
         });
}

bool TorusNetwork::shapes_repeat(const PodLayout& pods, std::int64_t unit, bool across_pods) const {
  // Multiples of such a unit add digits that numbers below it do not have: a translation.
  if (!translates(unit) || (pods.pods > 1 && pods.pod_size % unit != 0)) return false;
  return !across_pods || pods.pods == 1 || translates(pods.pod_size);
}

std::unique_ptr<Network> make_torus(const model::TorusSpec& spec,
                                    std::optional<std::int64_t> limit) {
  return std::make_unique<TorusNetwork>(spec, limit);
}

}  // namespace nestplan::network
