#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/html.hpp"

namespace nestplan::report {

struct Section {
  std::string id;
  std::string heading;
  std::function<void(Html&)> write;
  bool in_contents = true;
};

/// The whole document. `looks`: as many unlike things are drawn on it, see palette.hpp.
std::string page(const std::string& title, const std::vector<Section>& sections, std::size_t looks);

}  // namespace nestplan::report
