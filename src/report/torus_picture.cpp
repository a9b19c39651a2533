#include "report/torus_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "nestplan/network/torus.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"
#include "report/figure.hpp"

namespace nestplan::report {
namespace {

constexpr double kWidth = 850;
constexpr double kTitle = 17;
constexpr double kGap = 12;
constexpr std::int64_t kMostLabels = 288;
constexpr std::int64_t kMostLarge = 4096;

using util::idx;

class TorusPicture {
 public:
  TorusPicture(Html& html, const model::TorusSpec& spec, const std::vector<PlaceUse>& uses,
               const Looks& looks)
      : html_(html), spec_(spec), grid_(spec), uses_(uses), looks_(looks) {
    const std::int64_t places = grid_.places();
    labels_ = places <= kMostLabels;
    cell_width_ = labels_ ? 34 : places <= kMostLarge ? 11 : 8;
    cell_height_ = labels_ ? 19 : cell_width_;
    slices_ = places / (columns() * rows());
    const double slice = static_cast<double>(columns()) * cell_width_;
    copies_are_larger_ =
        std::adjacent_find(uses.begin(), uses.end(), [](const auto& a, const auto& b) {
          return a.busy() && !parted(a, b);
        }) != uses.end();
    across_ = std::clamp<std::int64_t>(static_cast<std::int64_t>((kWidth + kGap) / (slice + kGap)),
                                       1, slices_);
  }

  double width() const { return static_cast<double>(across_) * (slice_width() + kGap) - kGap + 2; }
  double height() const {
    const std::int64_t rows = (slices_ + across_ - 1) / across_;
    return static_cast<double>(rows) * (slice_height() + kGap) - kGap + 2;
  }

  void draw() {
    for (std::int64_t slice = 0; slice < slices_; ++slice) draw_slice(slice);
    fills_.write(html_);
    empty_.write(html_, {{"class", "none thin"}});
    if (copies_are_larger_) lines_.write(html_, {{"class", "cut"}});
    for (const Label& label : texts_) {
      write_label(html_, label.x, label.y, label.text, "middle", "on");
    }
  }

  /// Copies have several devices; else there is nothing that lines could part.
  bool copies_are_larger() const { return copies_are_larger_; }

  std::string extents() const {
    std::string text;
    for (const model::TorusDimension& dimension : spec_.dimensions) {
      text += fmt::format("{}{} {}{}", text.empty() ? "" : " × ", util::printable(dimension.name),
                          dimension.size,
                          dimension.switched ? " (switched)"
                          : dimension.wrap   ? " (wraps)"
                                             : "");
    }
    return text;
  }

 private:
  struct Label {
    double x, y;
    std::string text;
  };

  std::int64_t size(std::size_t dimension) const {
    return dimension < spec_.dimensions.size() ? spec_.dimensions[dimension].size : 1;
  }
  std::int64_t columns() const { return size(0); }
  std::int64_t rows() const { return size(1); }
  double slice_width() const { return static_cast<double>(columns()) * cell_width_; }
  double slice_height() const { return static_cast<double>(rows()) * cell_height_ + kTitle; }

  /// Of the third and further dimensions.
  std::vector<std::int64_t> coordinates_of(std::int64_t slice) const {
    std::vector<std::int64_t> coordinates(spec_.dimensions.size(), 0);
    for (std::size_t d = 2; d < coordinates.size(); ++d) {
      coordinates[d] = slice % size(d);
      slice /= size(d);
    }
    return coordinates;
  }

  std::string name_of(const std::vector<std::int64_t>& coordinates) const {
    std::string text;
    for (std::size_t d = 2; d < coordinates.size(); ++d) {
      text += fmt::format("{}{} {}", d == 2 ? "" : ", ", util::printable(spec_.dimensions[d].name),
                          coordinates[d]);
    }
    return text;
  }

  void draw_slice(std::int64_t slice) {
    std::vector<std::int64_t> at = coordinates_of(slice);
    const double left = 1 + static_cast<double>(slice % across_) * (slice_width() + kGap);
    const double top = 1 + static_cast<double>(slice / across_) * (slice_height() + kGap);
    write_label(html_, left, top + 11, name_of(at), "start", "quiet");
    std::vector<const PlaceUse*> cells;
    for (std::int64_t y = 0; y < rows(); ++y) {
      for (std::int64_t x = 0; x < columns(); ++x) {
        at[0] = x;
        if (at.size() > 1) at[1] = y;
        cells.push_back(&uses_[idx(grid_.place(at))]);
        add(*cells.back(),
            {left + static_cast<double>(x) * cell_width_,
             top + kTitle + static_cast<double>(y) * cell_height_, cell_width_, cell_height_});
      }
    }
    add_lines(cells, left, top + kTitle);
  }

  void add(const PlaceUse& use, const Rectangle& box) {
    if (!use.busy()) return empty_.add(box);
    fills_.add(looks_.of(use), box);
    if (!labels_) return;
    texts_.push_back({box.x + box.width / 2, box.y + box.height - 5, looks_.label(use)});
  }

  static bool parted(const PlaceUse& a, const PlaceUse& b) {
    return a.kind != b.kind || a.pod != b.pod || a.copy != b.copy;
  }

  /// Between cells of different copies, in strokes as long as can be.
  void add_lines(const std::vector<const PlaceUse*>& cells, double left, double top) {
    const auto use = [&](std::int64_t x, std::int64_t y) { return *cells[idx(y * columns() + x)]; };
    for (std::int64_t y = 1; y < rows(); ++y) {
      const double at = top + static_cast<double>(y) * cell_height_;
      add_strokes(
          columns(), [&](std::int64_t x) { return parted(use(x, y - 1), use(x, y)); },
          [&](std::int64_t from, std::int64_t to) {
            lines_.line(left + static_cast<double>(from) * cell_width_, at,
                        left + static_cast<double>(to) * cell_width_, at);
          });
    }
    for (std::int64_t x = 1; x < columns(); ++x) {
      const double at = left + static_cast<double>(x) * cell_width_;
      add_strokes(
          rows(), [&](std::int64_t y) { return parted(use(x - 1, y), use(x, y)); },
          [&](std::int64_t from, std::int64_t to) {
            lines_.line(at, top + static_cast<double>(from) * cell_height_, at,
                        top + static_cast<double>(to) * cell_height_);
          });
    }
  }

  template <typename Wanted, typename Draw>
  static void add_strokes(std::int64_t size, Wanted wanted, Draw draw) {
    for (std::int64_t from = 0; from < size; ++from) {
      if (!wanted(from)) continue;
      std::int64_t to = from + 1;
      while (to < size && wanted(to)) ++to;
      draw(from, to);
      from = to;
    }
  }

  Html& html_;
  const model::TorusSpec& spec_;
  network::TorusGrid grid_;
  const std::vector<PlaceUse>& uses_;
  const Looks& looks_;
  bool labels_ = false;
  bool copies_are_larger_ = false;
  double cell_width_ = 0, cell_height_ = 0;
  std::int64_t slices_ = 1;
  std::int64_t across_ = 1;
  Fills fills_;
  Path empty_, lines_;
  std::vector<Label> texts_;
};

}  // namespace

void write_torus(Html& html, const model::TorusSpec& spec, const std::vector<PlaceUse>& uses,
                 const Looks& looks) {
  TorusPicture picture(html, spec, uses, looks);
  const FigureText text{
      "torus", "Places of the torus",
      fmt::format("{}: every cell is one device, drawn as its {}; {}.", picture.extents(),
                  looks.by_copy() ? "copy" : "stage",
                  picture.copies_are_larger() ? "lines part copies of the model"
                                              : "each is a copy of its stage by itself")};
  const auto figure = html.open("figure");
  {
    const Drawing drawing(html, text, picture.width(), picture.height());
    picture.draw();
  }
  html.add("figcaption", text.description);
}

}  // namespace nestplan::report
