#include "report/block_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "nestplan/util/format.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"
#include "report/figure.hpp"

namespace nestplan::report {
namespace {

constexpr double kWidth = 850;
constexpr double kGap = 4;
constexpr double kPad = 5;
constexpr double kTitle = 15;
constexpr double kCharacter = 6.4;  ///< width of a character at 11 px, generously
constexpr std::int64_t kMostCells = 2048;
constexpr std::int64_t kMostLabels = 288;
constexpr std::int64_t kMostTitles = 128;
constexpr std::int64_t kMostGroups = 64;
constexpr std::int64_t kMostPods = 256;

using util::idx;

struct Extent {
  double width = 0, height = 0;
};

constexpr Extent kLabelled{34, 19};
constexpr Extent kSmall{11, 11};
constexpr Extent kPodBox{44, 20};

/// Columns of a grid of `count` items that comes out about kWidthToHeight times as wide as high,
/// has full rows if it can, and is no wider than `most`.
std::int64_t columns_of(std::int64_t count, const Extent& item, double most) {
  constexpr double kWidthToHeight = 2.5;
  const auto fitting = static_cast<std::int64_t>((most + kGap) / (item.width + kGap));
  const std::int64_t limit = std::clamp<std::int64_t>(fitting, 1, count);
  const double wanted =
      std::ceil(std::sqrt(kWidthToHeight * static_cast<double>(count) * item.height / item.width));
  const std::int64_t columns = std::min(limit, static_cast<std::int64_t>(wanted));
  for (std::int64_t c = columns; c <= std::min(limit, 2 * columns); ++c) {
    if (count % c == 0) return c;
  }
  return columns;
}

/// Where the items of a grid lie, from its corner.
struct Grid {
  std::int64_t columns;
  Extent item;

  Grid(std::int64_t count, const Extent& of_item, double most)
      : columns(columns_of(count, of_item, most)), item(of_item), count_(count) {}

  double x(std::int64_t i) const { return static_cast<double>(i % columns) * (item.width + kGap); }
  double y(std::int64_t i) const { return static_cast<double>(i / columns) * (item.height + kGap); }
  Extent extent() const {
    const std::int64_t rows = (count_ + columns - 1) / columns;
    return {static_cast<double>(std::min(columns, count_)) * (item.width + kGap) - kGap,
            static_cast<double>(rows) * (item.height + kGap) - kGap};
  }

 private:
  std::int64_t count_;
};

/// The title of a frame if there is room for it.
void write_title(Html& html, double x, double y, const std::string& name, std::int64_t number,
                 double width) {
  const std::string with_number =
      fmt::format("{} {}", util::printable(name), util::format_count(number));
  const auto room = static_cast<std::size_t>(std::max(0.0, width / kCharacter));
  const std::string text = with_number.size() <= room ? with_number : util::format_count(number);
  if (text.size() <= room) write_label(html, x, y, text, "start", "quiet");
}

/// Draws the blocks of one span.
class BlockPicture {
 public:
  BlockPicture(Html& html, const BlockTree& tree, const std::vector<PlaceUse>& uses,
               const Looks& looks, const PlaceSpan& span)
      : html_(html),
        tree_(tree),
        uses_(uses),
        looks_(looks),
        span_(span),
        detail_(detail_of(tree, span)) {
    while (top_ + 1 < tree.levels() &&
           tree.block_of(top_, span.begin) != tree.block_of(top_, span.end - 1)) {
      ++top_;
    }
    top_ = std::max(top_, detail_.cells + 1);
  }

  Extent extent() { return measure(top_, root()); }

  BlockContents draw() {
    draw(top_, root(), 0, 0);
    frames_.write(html_, {{"class", "edge"}});
    fills_.write(html_);
    pale_.write(html_, {{"class", "pale"}});
    others_.write(html_, {{"class", "panel thin"}});
    empty_.write(html_, {{"class", "none thin"}});
    for (const Label& label : labels_) {
      write_label(html_, label.x, label.y, label.text, "middle", "on");
    }
    return {!others_.empty(), !empty_.empty()};
  }

 private:
  struct Label {
    double x, y;
    std::string text;
  };

  std::int64_t root() const { return tree_.block_of(top_, span_.begin); }

  /// The blocks of the level below that are drawn: all of a block with cells, else those of the
  /// span.
  std::pair<std::int64_t, std::int64_t> children(int level, std::int64_t block) const {
    std::int64_t begin = tree_.begin(level, block);
    std::int64_t end = tree_.end(level, block);
    if (level > detail_.cells + 1) {
      begin = std::max(begin, span_.begin);
      end = std::min(end, span_.end);
    }
    return {tree_.block_of(level - 1, begin), tree_.block_of(level - 1, end - 1) + 1};
  }

  Extent cell() const { return detail_.labels ? kLabelled : kSmall; }

  /// Frames of many blocks are narrow and have no titles.
  bool is_crowded(int level) const {
    return tree_.block_of(level, span_.end - 1) - tree_.block_of(level, span_.begin) >= kMostTitles;
  }
  double title(int level) const { return is_crowded(level) ? 0 : kTitle; }
  double pad(int level) const { return is_crowded(level) ? 2 : kPad; }

  Grid grid_of(int level, std::int64_t block) {
    const auto [begin, end] = children(level, block);
    Extent item = cell();
    if (level - 1 > detail_.cells) {
      for (std::int64_t child = begin; child < end; ++child) {
        const Extent one = measure(level - 1, child);
        item = {std::max(item.width, one.width), std::max(item.height, one.height)};
      }
    }
    return {end - begin, item, kWidth - 2 * kPad * (top_ - level + 1)};
  }

  Extent measure(int level, std::int64_t block) {
    const auto known = extents_.find({level, block});
    if (known != extents_.end()) return known->second;
    const Extent inside = grid_of(level, block).extent();
    const Extent extent{inside.width + 2 * pad(level),
                        inside.height + 2 * pad(level) + title(level)};
    extents_[{level, block}] = extent;
    return extent;
  }

  void draw(int level, std::int64_t block, double x, double y) {
    const Extent extent = measure(level, block);
    const Grid grid = grid_of(level, block);
    frames_.add({x + .5, y + .5, extent.width - 1, extent.height - 1});
    if (title(level) > 0) {
      write_title(html_, x + kPad, y + kTitle - 2, tree_.name(level), block,
                  extent.width - 2 * kPad);
    }
    const auto [begin, end] = children(level, block);
    for (std::int64_t child = begin; child < end; ++child) {
      const double child_x = x + pad(level) + grid.x(child - begin);
      const double child_y = y + pad(level) + title(level) + grid.y(child - begin);
      if (level - 1 > detail_.cells) {
        draw(level - 1, child, child_x, child_y);
      } else {
        draw_cell(child, {child_x, child_y, cell().width, cell().height});
      }
    }
  }

  /// A cell's places in stripes of equal ones, as wide as they are many.
  void draw_cell(std::int64_t block, const Rectangle& cell) {
    const std::int64_t begin = tree_.begin(detail_.cells, block);
    const std::int64_t end = tree_.end(detail_.cells, block);
    const double per_place = cell.width / static_cast<double>(end - begin);
    for (std::int64_t first = begin; first < end;) {
      std::int64_t last = first + 1;
      while (last < end && alike(first, last)) ++last;
      add(first, {cell.x + static_cast<double>(first - begin) * per_place, cell.y,
                  static_cast<double>(last - first) * per_place, cell.height});
      first = last;
    }
  }

  bool is_of_span(std::int64_t place) const { return place >= span_.begin && place < span_.end; }

  bool alike(std::int64_t a, std::int64_t b) const {
    const PlaceUse& one = uses_[idx(a)];
    const PlaceUse& other = uses_[idx(b)];
    return one.kind == other.kind && is_of_span(a) == is_of_span(b) &&
           looks_.of(one) == looks_.of(other);
  }

  void add(std::int64_t place, const Rectangle& box) {
    const PlaceUse& use = uses_[idx(place)];
    if (!use.busy()) return empty_.add(box);
    if (!is_of_span(place)) return others_.add(box);
    fills_.add(looks_.of(use), box);
    if (!detail_.labels) return;
    if (!looks_.by_copy() && use.copy % 2 == 1) pale_.add(box);
    labels_.push_back({box.x + box.width / 2, box.y + box.height - 5, looks_.label(use)});
  }

  Html& html_;
  const BlockTree& tree_;
  const std::vector<PlaceUse>& uses_;
  const Looks& looks_;
  PlaceSpan span_;
  BlockDetail detail_;
  int top_ = 0;
  std::map<std::pair<int, std::int64_t>, Extent> extents_;
  Fills fills_;
  Path frames_, pale_, others_, empty_;
  std::vector<Label> labels_;
};

/// The nearest level of whose blocks no pod straddles one and that has not too many of them.
int level_around(const BlockTree& tree, const std::vector<PlaceSpan>& pods) {
  for (int level = 0; level < tree.levels(); ++level) {
    const bool inside = std::all_of(pods.begin(), pods.end(), [&](const PlaceSpan& pod) {
      return tree.block_of(level, pod.begin) == tree.block_of(level, pod.end - 1);
    });
    const std::int64_t blocks = tree.block_of(level, pods.back().begin) + 1;
    if (inside && blocks <= kMostGroups) return level;
  }
  return tree.levels() - 1;
}

/// The pods inside one block.
struct PodGroup {
  std::int64_t block = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

std::vector<PodGroup> groups_of(const BlockTree& tree, const std::vector<PlaceSpan>& pods,
                                int level) {
  std::vector<PodGroup> groups;
  for (std::int64_t pod = 0; pod < std::ssize(pods); ++pod) {
    const std::int64_t block = tree.block_of(level, pods[idx(pod)].begin);
    if (groups.empty() || groups.back().block != block) groups.push_back({block, pod, 0});
    ++groups.back().count;
  }
  return groups;
}

/// Pods by blocks, a box for every `per_box` of them.
class PodPicture {
 public:
  PodPicture(const BlockTree& tree, const std::vector<PlaceSpan>& pods)
      : tree_(tree), level_(level_around(tree, pods)), groups_(groups_of(tree, pods, level_)) {
    while (std::ssize(pods) > per_box_ * kMostPods) per_box_ *= 2;
    const double inner = kWidth - 2 * kPad;
    double x = 0;
    double y = 0;
    double row = 0;
    for (const PodGroup& group : groups_) {
      const Grid grid(boxes_of(group), box(), inner);
      const Extent inside = grid.extent();
      const Extent frame{inside.width + 2 * kPad, inside.height + 2 * kPad + kTitle};
      if (x > 0 && x + frame.width > kWidth) {
        x = 0;
        y += row + kGap;
        row = 0;
      }
      frames_.push_back({x, y, frame.width, frame.height});
      x += frame.width + kGap;
      row = std::max(row, frame.height);
      width_ = std::max(width_, x - kGap);
    }
    height_ = y + row;
  }

  std::int64_t per_box() const { return per_box_; }
  const std::string& level_name() const { return tree_.name(level_); }
  Extent extent() const { return {width_, height_}; }

  void draw(Html& html) const {
    Path frames, boxes;
    std::vector<std::pair<Rectangle, std::string>> labels;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const PodGroup& group = groups_[g];
      const Rectangle& frame = frames_[g];
      frames.add({frame.x + .5, frame.y + .5, frame.width - 1, frame.height - 1});
      write_title(html, frame.x + kPad, frame.y + kTitle - 2, level_name(), group.block,
                  frame.width - 2 * kPad);
      const Grid grid(boxes_of(group), box(), kWidth - 2 * kPad);
      for (std::int64_t i = 0; i < boxes_of(group); ++i) {
        const Rectangle place{frame.x + kPad + grid.x(i), frame.y + kPad + kTitle + grid.y(i),
                              box().width, box().height};
        boxes.add(place);
        labels.emplace_back(place, fmt::format("{}", group.first + i * per_box_));
      }
    }
    frames.write(html, {{"class", "edge"}});
    boxes.write(html, {{"class", "panel"}});
    for (const auto& [place, text] : labels) {
      write_label(html, place.x + place.width / 2, place.y + 14, text, "middle");
    }
  }

 private:
  std::int64_t boxes_of(const PodGroup& group) const {
    return (group.count + per_box_ - 1) / per_box_;
  }
  static Extent box() { return kPodBox; }

  const BlockTree& tree_;
  int level_;
  std::vector<PodGroup> groups_;
  std::int64_t per_box_ = 1;
  std::vector<Rectangle> frames_;
  double width_ = 0;
  double height_ = 0;
};

}  // namespace

BlockTree::BlockTree(const model::HierarchySpec& spec) {
  // blocks of every level, counted from the outermost one
  std::vector<std::int64_t> counts(spec.levels.size(), 1);
  const auto fanout = [&](std::size_t level, std::int64_t block) {
    const model::NetworkLevel& one = spec.levels[level];
    return one.fanouts.empty() ? one.fanout : one.fanouts[idx(block)];
  };
  for (std::size_t level = spec.levels.size(); level-- > 1;) {
    counts[level - 1] = 0;
    for (std::int64_t b = 0; b < counts[level]; ++b) counts[level - 1] += fanout(level, b);
  }
  for (std::size_t level = 0; level < spec.levels.size(); ++level) {
    names_.push_back(spec.levels[level].name);
    std::vector<std::int64_t> ends;
    std::int64_t children = 0;
    for (std::int64_t b = 0; b < counts[level]; ++b) {
      children += fanout(level, b);
      ends.push_back(level == 0 ? children : ends_[level - 1][idx(children) - 1]);
    }
    ends_.push_back(std::move(ends));
  }
}

std::int64_t BlockTree::begin(int level, std::int64_t block) const {
  return level < 0 ? block : block == 0 ? 0 : ends_[idx(level)][idx(block) - 1];
}

std::int64_t BlockTree::end(int level, std::int64_t block) const {
  return level < 0 ? block + 1 : ends_[idx(level)][idx(block)];
}

std::int64_t BlockTree::block_of(int level, std::int64_t place) const {
  if (level < 0) return place;
  const auto& ends = ends_[idx(level)];
  return std::upper_bound(ends.begin(), ends.end(), place) - ends.begin();
}

BlockDetail detail_of(const BlockTree& tree, const PlaceSpan& span) {
  const auto count = [&](int level) {
    return tree.block_of(level, span.end - 1) - tree.block_of(level, span.begin) + 1;
  };
  int cells = -1;
  while (cells + 2 < tree.levels() && count(cells) > kMostCells) ++cells;
  return {cells, cells < 0 && count(-1) <= kMostLabels};
}

BlockContents write_blocks(Html& html, const BlockTree& tree, const std::vector<PlaceUse>& uses,
                           const Looks& looks, const PlaceSpan& span) {
  const BlockDetail detail = detail_of(tree, span);
  const std::string cells = detail.cells < 0 ? "device" : util::printable(tree.name(detail.cells));
  const std::string what = looks.by_copy() ? "copy" : "stage";
  const FigureText text{
      "pod", "Places of the first pod",
      fmt::format("The {} places from {} on, block in block; each cell is one {}, drawn as its {}.",
                  util::format_count(span.end - span.begin), span.begin, cells, what)};
  BlockPicture picture(html, tree, uses, looks, span);
  const Extent extent = picture.extent();
  const Drawing drawing(html, text, extent.width, extent.height);
  return picture.draw();
}

void write_pods(Html& html, const BlockTree& tree, const std::vector<PlaceSpan>& pods) {
  const PodPicture picture(tree, pods);
  const std::string each =
      picture.per_box() == 1
          ? "Each box is a pod."
          : fmt::format("Each box stands for {} pods, the first of which it names.",
                        picture.per_box());
  const FigureText text{"pods", "All pods",
                        fmt::format("{} pods, in blocks that hold them whole ({}). {}",
                                    util::format_count(std::ssize(pods)),
                                    util::printable(picture.level_name()), each)};
  const auto figure = html.open("figure");
  {
    const Drawing drawing(html, text, picture.extent().width, picture.extent().height);
    picture.draw(html);
  }
  html.add("figcaption", text.description);
}

}  // namespace nestplan::report
