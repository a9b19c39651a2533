#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/html.hpp"

namespace nestplan::report {

/// A number of user units, to a hundredth.
std::string units(double value);

struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;
};

/// What a figure is called and what somebody who does not see it has to know.
struct FigureText {
  std::string id;  ///< of this figure alone
  std::string title;
  std::string description;
};

/// An SVG of a fixed size, in a box that scrolls where the window is narrower.
class Drawing {
 public:
  Drawing(Html& html, const FigureText& text, double width, double height);

 private:
  Html::Element box_;
  Html::Element svg_;
};

/// Shapes of one look, written as one path: a fraction of the bytes that elements take.
class Path {
 public:
  void add(const Rectangle& rectangle);
  void line(double from_x, double from_y, double to_x, double to_y);
  bool empty() const { return data_.empty(); }
  /// Nothing if the path is empty.
  void write(Html& html, const Html::Attributes& attributes) const;

 private:
  std::string data_;
};

/// The first and the last of `count` things where they are too many to be drawn, else all.
std::vector<std::size_t> drawn_of(std::size_t count);

/// Rectangles by their fill, see fill_of(), each with an outline.
class Fills {
 public:
  void add(std::size_t look, const Rectangle& rectangle) { paths_[look].add(rectangle); }
  void write(Html& html) const;

 private:
  std::map<std::size_t, Path> paths_;
};

/// `anchor`: "start", "middle" or "end" of the text is at `x`. `classes`: may be empty.
void write_label(Html& html, double x, double y, std::string_view text, std::string_view anchor,
                 std::string_view classes = "");

struct LegendEntry {
  std::size_t look = 0;
  std::string text;
  std::string_view mark{};  ///< class of the swatch in place of a look
};
void write_legend(Html& html, const std::vector<LegendEntry>& entries);

/// A part of a bar, as a share of its whole length.
struct BarPart {
  std::optional<std::size_t> look;  ///< nothing: it stays empty
  double share = 0;
};

/// A bar as wide as the page lets it be. `limit`: a line across it, if it is above 0 and below 1.
void write_bar(Html& html, const FigureText& text, const std::vector<BarPart>& parts,
               double limit = 0);

}  // namespace nestplan::report
