#include <algorithm>

#include "nestplan/network/torus.hpp"

namespace nestplan::network {
namespace {

/// An axis is a row of two members or more.
struct Axis {
  std::size_t dimension = 0;
  std::int64_t members = 1;
  bool closed = false;
};

/// A point of a grid of `rows` by `columns`.
struct Point {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

/// Round a grid with an even number of rows: along the rows to and fro, home along the first
/// column.
std::vector<Point> round_even(std::int64_t rows, std::int64_t columns) {
  std::vector<Point> walk;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 1; j < columns; ++j) walk.push_back({r, r % 2 == 0 ? j : columns - j});
  }
  for (std::int64_t r = rows; r-- > 0;) walk.push_back({r, 0});
  return walk;
}

/// Round a grid of odd sides whose columns are closed: down and up the columns but for their last
/// row, home along that one.
std::vector<Point> round_closed(std::int64_t rows, std::int64_t columns) {
  std::vector<Point> walk;
  for (std::int64_t c = columns; c-- > 0;) {
    const bool down = c % 2 == 0;
    for (std::int64_t r = 0; r + 1 < rows; ++r) walk.push_back({down ? r : rows - 2 - r, c});
  }
  for (std::int64_t c = 0; c < columns; ++c) walk.push_back({rows - 1, c});
  return walk;
}

/// A grid of odd sides: round all rows but the last, whose points are taken in pairs on the way
/// along the row before; a corner is left and costs a step of two hops.
std::vector<Point> round_odd(std::int64_t rows, std::int64_t columns) {
  std::vector<Point> walk;
  for (const Point& point : round_even(rows - 1, columns)) {
    const bool last = point.row == rows - 2;
    const bool odd = point.column % 2 == 1;
    if (last && odd) walk.push_back({rows - 1, point.column});
    walk.push_back(point);
    if (last && !odd) walk.push_back({rows - 1, point.column});
  }
  // Each walk begins where it ends; the long step closes it.
  const auto corner = std::find_if(walk.begin(), walk.end(), [rows](const Point& point) {
    return point.row == rows - 1 && point.column == 0;
  });
  std::rotate(walk.begin(), corner + 1, walk.end());
  return walk;
}

/// Index along every axis of the points of a path through a box, each a neighbour of the last.
std::vector<std::vector<std::int64_t>> snake(std::span<const Axis> axes) {
  std::vector<std::vector<std::int64_t>> path{std::vector<std::int64_t>(axes.size(), 0)};
  for (std::size_t a = 0; a < axes.size(); ++a) {
    const std::vector<std::vector<std::int64_t>> forth = path;
    for (std::int64_t i = 1; i < axes[a].members; ++i) {
      for (std::size_t p = 0; p < forth.size(); ++p) {
        path.push_back(i % 2 == 1 ? forth[forth.size() - 1 - p] : forth[p]);
        path.back()[a] = i;
      }
    }
  }
  return path;
}

}  // namespace

bool has_cycle(std::span<const std::int64_t> members, std::span<const bool> closed) {
  std::size_t axes = 0;
  bool any_even = false;
  bool any_closed = false;
  for (std::size_t d = 0; d < members.size(); ++d) {
    if (members[d] < 2) continue;
    ++axes;
    any_even = any_even || members[d] % 2 == 0;
    any_closed = any_closed || closed[d];
  }
  if (axes == 1) {
    const bool pair = *std::max_element(members.begin(), members.end()) == 2;
    return any_closed || pair;
  }
  return axes > 1 && (any_even || any_closed);
}

std::vector<std::int64_t> TorusGrid::ring(std::span<const std::int64_t> members) const {
  std::vector<std::int64_t> result(members.begin(), members.end());
  std::sort(result.begin(), result.end());
  const std::optional<TorusBox> rows = box(members);
  if (!rows) return result;
  std::vector<Axis> axes;
  for (std::size_t d = 0; d < rows->size(); ++d) {
    const TorusRow& row = (*rows)[d];
    if (row.members > 1) axes.push_back({d, row.members, row.closed});
  }
  if (axes.empty()) return result;
  // The axis whose rows are walked to and fro comes first: an even one, else a closed one.
  const auto even = std::find_if(axes.begin(), axes.end(),
                                 [](const Axis& axis) { return axis.members % 2 == 0; });
  const auto closed =
      std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.closed; });
  if (even != axes.end()) {
    std::iter_swap(axes.begin(), even);
  } else if (closed != axes.end()) {
    std::iter_swap(axes.begin(), closed);
  }
  const std::int64_t height = axes.front().members;
  const auto across = snake(std::span(axes).subspan(1));
  const std::int64_t width = std::ssize(across);
  std::vector<Point> walk;
  if (width == 1) {
    for (std::int64_t r = 0; r < height; ++r) walk.push_back({r, 0});
  } else if (height % 2 == 0) {
    walk = round_even(height, width);
  } else {
    walk = axes.front().closed ? round_closed(height, width) : round_odd(height, width);
  }
  std::vector<std::int64_t> point(dimensions());
  for (std::size_t d = 0; d < point.size(); ++d) point[d] = (*rows)[d].first;
  const auto put = [&](const Axis& axis, std::int64_t index) {
    const TorusRow& row = (*rows)[axis.dimension];
    point[axis.dimension] = row.first + index * row.stride;
  };
  for (std::size_t i = 0; i < walk.size(); ++i) {
    put(axes.front(), walk[i].row);
    const auto& others = across[static_cast<std::size_t>(walk[i].column)];
    for (std::size_t a = 1; a < axes.size(); ++a) put(axes[a], others[a - 1]);
    result[i] = place(point);
  }
  return result;
}

}  // namespace nestplan::network
