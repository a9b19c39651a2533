#include "cli/describe_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "cli/text.hpp"
#include "nestplan/model/blocks.hpp"
#include "nestplan/network/torus.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr std::size_t kWidth = 100;
constexpr std::size_t kMostSiblings = 12;  ///< of a block, drawn
constexpr std::size_t kMostLines = 60;     ///< of a picture

using util::idx;

bool is_regular(const model::Cluster& cluster) {
  const auto& levels = cluster.hierarchy().levels;
  const auto even = [](const model::NetworkLevel& level) { return level.fanouts.empty(); };
  return cluster.unavailable.empty() && cluster.types.empty() &&
         std::all_of(levels.begin(), levels.end(), even);
}

/// The blocks from the whole machine down to one device.
std::string regular_tree(const model::Cluster& cluster) {
  const auto& levels = cluster.hierarchy().levels;
  std::string out;
  std::size_t depth = 0;
  const auto branch = [&](const std::string& text) {
    out += "  " + (depth == 0 ? "" : std::string(3 * (depth - 1), ' ') + "└─ ") + text + '\n';
    ++depth;
  };
  std::int64_t size = 1;
  for (const model::NetworkLevel& level : levels) size *= level.fanout;
  branch(fmt::format("{} ({})", printable(levels.back().name), counted(size, "device")));
  for (std::size_t l = levels.size(); l-- > 0;) {
    size /= levels[l].fanout;
    const std::string below =
        l == 0 ? printable(cluster.device.name) : printable(levels[l - 1].name);
    branch(fmt::format("{} × {}{}", util::format_count(levels[l].fanout), below,
                       l == 0 ? "" : fmt::format(" of {}", util::format_count(size))));
  }
  return out;
}

/// A block of some level; blocks with the same children are the same one.
struct Block {
  std::vector<int> children;  ///< blocks of the level below; at level 0 types of places
  std::int64_t places = 0;
  std::int64_t missing = 0;
};

/// The distinct blocks of a hierarchy, level by level, and where they occur.
class Blocks {
 public:
  explicit Blocks(const model::Cluster& cluster) {
    std::vector<int> below = types_of_places(cluster);
    for (const model::NetworkLevel& level : cluster.hierarchy().levels) {
      distinct_.emplace_back();
      below = join(level, below);
    }
    root_ = below.front();
  }

  int levels() const { return static_cast<int>(distinct_.size()); }
  int root() const { return root_; }
  const Block& at(int level, int block) const { return distinct_[idx(level)][idx(block)]; }

 private:
  std::vector<int> join(const model::NetworkLevel& level, const std::vector<int>& below) {
    std::map<std::vector<int>, int> known;
    std::vector<int> blocks;
    for (std::size_t begin = 0; begin < below.size();) {
      const std::int64_t fanout =
          level.fanouts.empty() ? level.fanout : level.fanouts[blocks.size()];
      const auto first = below.begin() + static_cast<std::ptrdiff_t>(begin);
      std::vector<int> children(first, first + fanout);
      const auto [found, added] = known.emplace(children, static_cast<int>(known.size()));
      if (added) distinct_.back().push_back(sum(std::move(children)));
      blocks.push_back(found->second);
      begin += idx(fanout);
    }
    return blocks;
  }

  Block sum(std::vector<int> children) const {
    Block block;
    const auto level = static_cast<int>(distinct_.size()) - 1;
    for (const int child : children) {
      block.places += level == 0 ? 1 : at(level - 1, child).places;
      block.missing += level == 0 ? (child == kNothing ? 1 : 0) : at(level - 1, child).missing;
    }
    block.children = std::move(children);
    return block;
  }

  std::vector<std::vector<Block>> distinct_;
  int root_ = 0;
};

/// Neighbours that are the same.
struct Run {
  std::size_t first = 0;
  std::size_t count = 0;
  int what = 0;
};

std::vector<Run> runs_of(const std::vector<int>& list) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (runs.empty() || runs.back().what != list[i]) runs.push_back({i, 0, list[i]});
    ++runs.back().count;
  }
  return runs;
}

class Tree {
 public:
  explicit Tree(const model::Cluster& cluster) : cluster_(cluster), blocks_(cluster) {}

  std::string text() {
    const int top = blocks_.levels() - 1;
    const Block& root = blocks_.at(top, blocks_.root());
    line("", fmt::format("{} ({}{})", level_name(top),
                         counted(root.places - root.missing, "device"), missing_text(root)));
    draw(top, root, "");
    if (left_out_ > 0) out_ += fmt::format("  … {} more lines\n", left_out_);
    return out_;
  }

 private:
  std::string level_name(int level) const {
    return printable(cluster_.hierarchy().levels[idx(level)].name);
  }

  void line(const std::string& indent, const std::string& text) {
    if (lines_++ < kMostLines) {
      out_ += shortened("  " + indent + text, kWidth) + '\n';
    } else {
      ++left_out_;
    }
  }

  static std::string missing_text(const Block& block) {
    return block.missing == 0 ? ""
                              : fmt::format(", {} unavailable", util::format_count(block.missing));
  }

  /// "4 × h100, 1 unavailable, 3 × h100"
  std::string devices_text(const Block& node) const {
    std::vector<std::string> parts;
    for (const Run& run : runs_of(node.children)) {
      parts.push_back(run.what == kNothing ? fmt::format("{} unavailable", run.count)
                                           : fmt::format("{} × {}", run.count,
                                                         printable(cluster_.type(run.what).name)));
    }
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  /// "node 3: 8 × h100", "rack 0–2: 18 node each, 72 devices"
  std::string block_text(int level, const Run& run) const {
    const Block& block = blocks_.at(level, run.what);
    const char* each = run.count > 1 ? " each" : "";
    const Range range{static_cast<std::int64_t>(run.first),
                      static_cast<std::int64_t>(run.first + run.count)};
    const std::string head = fmt::format("{} {}: ", level_name(level), range_text(range));
    if (level == 0) return head + devices_text(block) + each;
    return head + fmt::format("{} × {}{}, {}{}", block.children.size(), level_name(level - 1), each,
                              counted(block.places - block.missing, "device"), missing_text(block));
  }

  void draw(int level, const Block& block, const std::string& indent) {
    if (level == 0) return line(indent, "└─ " + devices_text(block));
    const std::vector<Run> runs = runs_of(block.children);
    const std::size_t shown = std::min(runs.size(), kMostSiblings);
    for (std::size_t r = 0; r < shown; ++r) {
      const bool last = r + 1 == runs.size();
      line(indent, (last ? "└─ " : "├─ ") + block_text(level - 1, runs[r]));
      if (level < 2) continue;
      draw(level - 1, blocks_.at(level - 1, runs[r].what), indent + (last ? "   " : "│  "));
    }
    if (shown < runs.size()) {
      line(indent, fmt::format("└─ … {} {} more", block.children.size() - runs[shown].first,
                               level_name(level - 1)));
    }
  }

  const model::Cluster& cluster_;
  Blocks blocks_;
  std::string out_;
  std::size_t lines_ = 0;
  std::size_t left_out_ = 0;
};

/// Places in the order of the coordinates, the first dimension running fastest.
std::vector<std::int64_t> places_by_coordinates(const model::TorusSpec& spec) {
  const network::TorusGrid grid(spec);
  std::vector<std::int64_t> places(idx(grid.places()));
  for (std::int64_t place = 0; place < grid.places(); ++place) {
    std::int64_t at = 0;
    for (std::size_t d = grid.dimensions(); d-- > 0;) {
      at = at * spec.dimensions[d].size + grid.coordinate(place, d);
    }
    places[idx(at)] = place;
  }
  return places;
}

/// Grids of the first two dimensions, one for each point of the others.
class Grids {
 public:
  explicit Grids(const model::Cluster& cluster)
      : spec_(std::get<model::TorusSpec>(cluster.network)),
        places_(places_by_coordinates(spec_)),
        types_(types_of_places(cluster)),
        several_types_(cluster.type_count() > 1) {
    label_of_ = model::hosts_of_places(cluster);
    hosts_ = label_of_.back() + 1 < std::ssize(types_);
    width_ = fmt::format("{}", label_of_.back()).size() + (several_types_ ? 1 : 0);
  }

  std::string text() const {
    std::string out = "  " + heading() + '\n';
    const std::int64_t columns = size(0);
    const std::int64_t rows = size(1);
    const std::int64_t slices = std::ssize(places_) / std::max<std::int64_t>(columns * rows, 1);
    const std::int64_t shown = std::min(slices, std::max<std::int64_t>(1, kMostRows / rows));
    for (std::int64_t slice = 0; slice < shown; ++slice) {
      out += slice_heading(slice);
      for (std::int64_t y = 0; y < std::min(rows, kMostRows); ++y) {
        out += row((slice * rows + y) * columns, columns);
      }
      if (rows > kMostRows) out += fmt::format("    … {} more rows\n", rows - kMostRows);
    }
    if (shown < slices) out += fmt::format("  … {} more slices\n", slices - shown);
    return out;
  }

 private:
  static constexpr std::int64_t kMostRows = 32;

  std::int64_t size(std::size_t dimension) const {
    return dimension < spec_.dimensions.size() ? spec_.dimensions[dimension].size : 1;
  }

  std::string name(std::size_t dimension) const {
    return printable(spec_.dimensions[dimension].name);
  }

  std::string heading() const {
    std::string extents;
    for (std::size_t d = 0; d < spec_.dimensions.size(); ++d) {
      extents += fmt::format("{}{}{}", d == 0 ? "" : " × ", size(d),
                             spec_.dimensions[d].switched ? " (switched)"
                             : spec_.dimensions[d].wrap   ? " (wraps)"
                                                          : "");
    }
    std::string text =
        fmt::format("{}: the {} at every place", extents, hosts_ ? "host" : "number");
    if (std::find(types_.begin(), types_.end(), kNothing) != types_.end()) {
      text += ", · where none is available";
    }
    if (several_types_) text += ", with a letter for the type of device";
    return text;
  }

  /// "z 3", with all dimensions beyond the second.
  std::string slice_heading(std::int64_t slice) const {
    std::string text;
    for (std::size_t d = 2; d < spec_.dimensions.size(); ++d) {
      text += fmt::format("{}{} {}", d == 2 ? "  " : ", ", name(d), slice % size(d));
      slice /= size(d);
    }
    return text.empty() ? "" : text + '\n';
  }

  std::string row(std::int64_t first, std::int64_t columns) const {
    const auto fits = static_cast<std::int64_t>((kWidth - 8) / (width_ + 1));
    std::string line = "   ";
    for (std::int64_t x = 0; x < std::min(columns, fits); ++x) {
      line += ' ' + cell(places_[idx(first + x)]);
    }
    return line + (columns > fits ? " …\n" : "\n");
  }

  std::string cell(std::int64_t place) const {
    const int type = types_[idx(place)];
    std::string text = type == kNothing ? "·" : fmt::format("{}", label_of_[idx(place)]);
    if (several_types_) text += type == kNothing ? ' ' : static_cast<char>('a' + type % 26);
    return std::string(width_ - std::min(width_, display_width(text)), ' ') + text;
  }

  const model::TorusSpec& spec_;
  std::vector<std::int64_t> places_;
  std::vector<int> types_;
  bool several_types_;
  bool hosts_ = false;
  std::vector<std::int64_t> label_of_;  ///< by place: its host, or itself where hosts have one
  std::size_t width_ = 0;
};

}  // namespace

std::vector<int> types_of_places(const model::Cluster& cluster) {
  std::vector<int> types(idx(cluster.places()), kNothing);
  const std::vector<std::int64_t> places = cluster.places_of_devices();
  const std::vector<std::uint8_t> of_devices = cluster.types_of_devices();
  for (std::size_t d = 0; d < places.size(); ++d) {
    types[idx(places[d])] = of_devices.empty() ? 0 : of_devices[d];
  }
  return types;
}

std::string tree_picture(const model::Cluster& cluster) {
  return is_regular(cluster) ? regular_tree(cluster) : Tree(cluster).text();
}

std::string torus_picture(const model::Cluster& cluster) { return Grids(cluster).text(); }

}  // namespace nestplan::cli
