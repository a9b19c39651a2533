#pragma once

#include <regex>
#include <string>
#include <vector>

#include "report/figure.hpp"

namespace nestplan::testing {

/// The rectangles of all paths of `markup` whose attributes match `which`.
inline std::vector<report::Rectangle> rectangles(const std::string& markup,
                                                 const std::string& which) {
  const std::regex path("<path ([^>]*)d=\"([^\"]*)\"");
  const std::regex box("M(-?[0-9.]+) (-?[0-9.]+)h(-?[0-9.]+)v(-?[0-9.]+)h-?[0-9.]+z");
  const std::regex wanted(which);
  std::vector<report::Rectangle> all;
  for (std::sregex_iterator p(markup.begin(), markup.end(), path), end; p != end; ++p) {
    if (!std::regex_search((*p)[1].str(), wanted)) continue;
    const std::string data = (*p)[2].str();
    for (std::sregex_iterator b(data.begin(), data.end(), box); b != end; ++b) {
      all.push_back(
          {std::stod((*b)[1]), std::stod((*b)[2]), std::stod((*b)[3]), std::stod((*b)[4])});
    }
  }
  return all;
}

/// More than the rounding of coordinates has them share.
inline bool overlap(const report::Rectangle& a, const report::Rectangle& b) {
  constexpr double kRounding = 0.02;
  return a.x + a.width > b.x + kRounding && b.x + b.width > a.x + kRounding &&
         a.y + a.height > b.y + kRounding && b.y + b.height > a.y + kRounding;
}

/// The number in `markup` behind the first `before`.
inline double number_after(const std::string& markup, const std::string& before) {
  return std::stod(markup.substr(markup.find(before) + before.size()));
}

}  // namespace nestplan::testing
