#include "nestplan/lattice/lattice.hpp"

#include <algorithm>
#include <string>

#include "nestplan/util/errors.hpp"

namespace nestplan::lattice {
namespace {

using Members = std::vector<std::uint64_t>;

std::size_t word_of(int layer) { return static_cast<std::size_t>(layer) / 64; }
std::uint64_t bit_of(int layer) { return std::uint64_t{1} << (layer % 64); }

bool includes(const std::uint64_t* set, const Members& subset) {
  for (std::size_t w = 0; w < subset.size(); ++w) {
    if ((subset[w] & ~set[w]) != 0) return false;
  }
  return true;
}

std::vector<Members> successors(const model::Graph& graph, std::size_t words) {
  std::vector<Members> result(graph.layers.size(), Members(words, 0));
  for (const model::Edge& edge : graph.edges) {
    result[static_cast<std::size_t>(edge.from)][word_of(edge.to)] |= bit_of(edge.to);
  }
  return result;
}

/// Sorts the sets in `wave` (each `words` long, back to back) and removes duplicates.
void sort_unique(Members& wave, std::size_t words) {
  const std::size_t count = wave.size() / words;
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i * words;
  const auto begin = wave.cbegin();
  const auto at = [begin](std::size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(at(a), at(a + words), at(b), at(b + words));
  });
  Members sorted;
  sorted.reserve(wave.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && std::equal(at(order[i]), at(order[i] + words), at(order[i - 1]))) continue;
    sorted.insert(sorted.end(), at(order[i]), at(order[i] + words));
  }
  wave = std::move(sorted);
}

}  // namespace

Lattice::Lattice(int layers, std::vector<std::uint64_t> bits)
    : layers_(layers), words_((layers + 63) / 64), bits_(std::move(bits)) {
  const auto words = static_cast<std::size_t>(words_);
  const std::size_t count = bits_.size() / words;
  cardinality_.reserve(count);
  for (std::size_t d = 0; d < count; ++d) {
    int members = 0;
    for (std::size_t w = 0; w < words; ++w) members += std::popcount(bits_[d * words + w]);
    cardinality_.push_back(members);
  }
  for (int c = 0; c <= layers_ + 1; ++c) {
    const auto first = std::lower_bound(cardinality_.begin(), cardinality_.end(), c);
    wave_begin_.push_back(static_cast<DownsetId>(first - cardinality_.begin()));
  }
  totally_ordered_ = true;
  for (DownsetId d = 1; d < size() && totally_ordered_; ++d) totally_ordered_ = subset(d - 1, d);
}

Lattice Lattice::enumerate(const model::Graph& graph, std::int64_t max_downsets,
                           const std::function<bool()>& stop) {
  const int layers = static_cast<int>(graph.layers.size());
  const auto words = static_cast<std::size_t>((layers + 63) / 64);
  const std::vector<Members> needed = successors(graph, words);
  Members all(words, 0);
  Members wave(words, 0);
  for (int size = 0; size < layers; ++size) {
    if (stop && stop()) throw Interrupted();
    Members next;
    for (std::size_t begin = 0; begin < wave.size(); begin += words) {
      const std::uint64_t* set = wave.data() + begin;
      for (int layer = 0; layer < layers; ++layer) {
        if ((set[word_of(layer)] & bit_of(layer)) != 0) continue;
        if (!includes(set, needed[static_cast<std::size_t>(layer)])) continue;
        next.insert(next.end(), set, set + words);
        next[next.size() - words + word_of(layer)] |= bit_of(layer);
      }
    }
    sort_unique(next, words);
    all.insert(all.end(), next.begin(), next.end());
    if (static_cast<std::int64_t>(all.size() / words) > max_downsets) {
      throw MemoryLimit("the graph \"" + graph.name + "\" has more than " +
                        std::to_string(max_downsets) +
                        " downsets; merge layers that always run together");
    }
    wave = std::move(next);
  }
  return Lattice(layers, std::move(all));
}

Lattice Lattice::of_chain(const model::Graph& graph, const std::vector<std::vector<int>>& stages) {
  const int layers = static_cast<int>(graph.layers.size());
  const auto words = static_cast<std::size_t>((layers + 63) / 64);
  const std::vector<Members> needed = successors(graph, words);
  Members all(words, 0);
  Members set(words, 0);
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage) {
    for (const int layer : *stage) {
      if ((set[word_of(layer)] & bit_of(layer)) != 0) {
        throw InvalidInput("layer \"" + graph.layers[static_cast<std::size_t>(layer)].id +
                           "\" is in more than one stage");
      }
      set[word_of(layer)] |= bit_of(layer);
    }
    for (const int layer : *stage) {
      if (!includes(set.data(), needed[static_cast<std::size_t>(layer)])) {
        throw InvalidInput("layer \"" + graph.layers[static_cast<std::size_t>(layer)].id +
                           "\" feeds a layer of an earlier stage");
      }
    }
    if (stage->empty()) throw InvalidInput("a stage has no layers");
    all.insert(all.end(), set.begin(), set.end());
  }
  for (int layer = 0; layer < layers; ++layer) {
    if ((set[word_of(layer)] & bit_of(layer)) == 0) {
      throw InvalidInput("layer \"" + graph.layers[static_cast<std::size_t>(layer)].id +
                         "\" is in no stage");
    }
  }
  return Lattice(layers, std::move(all));
}

std::vector<int> Lattice::difference(DownsetId outer, DownsetId inner) const {
  std::vector<int> result;
  const auto a = members(outer);
  const auto b = members(inner);
  for (std::size_t w = 0; w < a.size(); ++w) {
    for (std::uint64_t rest = a[w] & ~b[w]; rest != 0; rest &= rest - 1) {
      result.push_back(static_cast<int>(w) * 64 + std::countr_zero(rest));
    }
  }
  return result;
}

}  // namespace nestplan::lattice
