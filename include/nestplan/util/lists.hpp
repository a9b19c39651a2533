#pragma once

#include <algorithm>
#include <vector>

namespace nestplan::util {

/// Ascending, each value once.
template <typename Value>
void sort_unique(std::vector<Value>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

template <typename Value>
std::vector<Value> sorted_unique(std::vector<Value> list) {
  sort_unique(list);
  return list;
}

}  // namespace nestplan::util
