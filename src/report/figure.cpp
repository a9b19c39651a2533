#include "report/figure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/palette.hpp"

namespace nestplan::report {
namespace {

constexpr double kBarHeight = 22;

/// Attributes of an image for those who see it and those who do not.
Html::Attributes image_attributes(const FigureText& text) {
  return {{"xmlns", "http://www.w3.org/2000/svg"},
          {"role", "img"},
          {"aria-labelledby", fmt::format("{0}-title {0}-desc", text.id)}};
}

void write_texts(Html& html, const FigureText& text) {
  html.add("title", text.title, {{"id", text.id + "-title"}});
  html.add("desc", text.description, {{"id", text.id + "-desc"}});
}

Html::Attributes drawing_attributes(const FigureText& text, double width, double height) {
  Html::Attributes attributes = image_attributes(text);
  attributes.emplace_back("width", units(width));
  attributes.emplace_back("height", units(height));
  attributes.emplace_back("viewBox", fmt::format("0 0 {} {}", units(width), units(height)));
  return attributes;
}

std::string percentage(double share) { return units(100 * share) + "%"; }

}  // namespace

std::string units(double value) {
  const double rounded = std::round(100 * value) / 100;
  return fmt::format("{}", rounded == 0 ? 0.0 : rounded);  // not -0
}

std::vector<std::size_t> drawn_of(std::size_t count) {
  constexpr std::size_t kMostDrawn = 24;
  constexpr std::size_t kAtAnEnd = 10;
  std::vector<std::size_t> drawn;
  for (std::size_t i = 0; i < count; ++i) {
    if (count <= kMostDrawn || i < kAtAnEnd || i + kAtAnEnd >= count) drawn.push_back(i);
  }
  return drawn;
}

Drawing::Drawing(Html& html, const FigureText& text, double width, double height)
    : box_(html.open("div", {{"class", "scroll"},
                             {"role", "region"},
                             {"tabindex", "0"},
                             {"aria-label", text.title}})),
      svg_(html.open("svg", drawing_attributes(text, width, height))) {
  write_texts(html, text);
}

void Path::add(const Rectangle& r) {
  data_ += fmt::format("M{} {}h{}v{}h{}z", units(r.x), units(r.y), units(r.width), units(r.height),
                       units(-r.width));
}

void Path::line(double from_x, double from_y, double to_x, double to_y) {
  data_ += fmt::format("M{} {}L{} {}", units(from_x), units(from_y), units(to_x), units(to_y));
}

void Path::write(Html& html, const Html::Attributes& attributes) const {
  if (data_.empty()) return;
  Html::Attributes all = attributes;
  all.emplace_back("d", data_);
  html.add_empty("path", all);
}

void Fills::write(Html& html) const {
  for (const auto& [look, path] : paths_) {
    path.write(html, {{"fill", fill_of(look)}, {"stroke", "var(--edge)"}, {"stroke-width", ".6"}});
  }
}

void write_label(Html& html, double x, double y, std::string_view text, std::string_view anchor,
                 std::string_view classes) {
  Html::Attributes attributes{{"x", units(x)}, {"y", units(y)}};
  if (anchor != "start") attributes.emplace_back("text-anchor", anchor);
  if (!classes.empty()) attributes.emplace_back("class", classes);
  html.add("text", text, attributes);
}

void write_legend(Html& html, const std::vector<LegendEntry>& entries) {
  const auto list = html.open("ul", {{"class", "legend"}});
  for (const LegendEntry& entry : entries) {
    const auto item = html.open("li");
    {
      const auto swatch =
          html.open("svg", {{"width", "20"}, {"height", "16"}, {"aria-hidden", "true"}});
      Html::Attributes look{{"x", "1"}, {"y", "1"}, {"width", "18"}, {"height", "14"}};
      if (entry.mark.empty()) {
        look.emplace_back("fill", fill_of(entry.look));
        look.emplace_back("stroke", "var(--edge)");
      } else {
        look.emplace_back("class", entry.mark);
      }
      html.add_empty("rect", look);
    }
    html.add("span", entry.text);
  }
}

void write_bar(Html& html, const FigureText& text, const std::vector<BarPart>& parts,
               double limit) {
  Html::Attributes attributes = image_attributes(text);
  attributes.emplace_back("width", "100%");
  attributes.emplace_back("height", units(kBarHeight));
  const auto svg = html.open("svg", attributes);
  write_texts(html, text);
  double begin = 0;
  for (const BarPart& part : parts) {
    if (part.share <= 0) continue;
    if (part.look) {
      html.add_empty("rect", {{"x", percentage(begin)},
                              {"y", "3"},
                              {"width", percentage(part.share)},
                              {"height", units(kBarHeight - 6)},
                              {"fill", fill_of(*part.look)},
                              {"stroke", "var(--edge)"}});
    }
    begin += part.share;
  }
  if (limit > 0 && limit < 1) {
    html.add_empty("line", {{"x1", percentage(limit)},
                            {"x2", percentage(limit)},
                            {"y1", "0"},
                            {"y2", units(kBarHeight)},
                            {"class", "cut"}});
  }
}

}  // namespace nestplan::report
