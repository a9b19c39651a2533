#include "nestplan/lattice/lattice.hpp"

#include <algorithm>
#include <compare>
#include <numeric>
#include <string>
#include <utility>

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

/// Sorts the sets in `wave` (each `words` long, back to back) and removes duplicates. Returns where
/// each set is now.
std::vector<DownsetId> sort_unique(Members& wave, std::size_t words) {
  const std::size_t count = wave.size() / words;
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto set = [&wave, words](std::size_t i) {
    return std::span<const std::uint64_t>(wave).subspan(i * words, words);
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::lexicographical_compare(set(a).begin(), set(a).end(), set(b).begin(), set(b).end());
  });
  std::vector<DownsetId> place(count);
  Members sorted;
  sorted.reserve(wave.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto next = set(order[i]);
    if (i == 0 || !std::equal(next.begin(), next.end(), set(order[i - 1]).begin())) {
      sorted.insert(sorted.end(), next.begin(), next.end());
    }
    place[order[i]] = static_cast<DownsetId>(sorted.size() / words) - 1;
  }
  wave = std::move(sorted);
  return place;
}

}  // namespace

Lattice::Lattice(int layers, std::vector<std::uint64_t> bits, Steps steps)
    : layers_(layers), words_((layers + 63) / 64), bits_(std::move(bits)) {
  const auto words = static_cast<std::size_t>(words_);
  const std::size_t count = bits_.size() / words;
  std::vector<int> cardinality(count, 0);
  for (std::size_t d = 0; d < count; ++d) {
    for (std::size_t w = 0; w < words; ++w) cardinality[d] += std::popcount(bits_[d * words + w]);
  }
  std::vector<DownsetId> wave_begin;
  for (int c = 0; c <= layers_ + 1; ++c) {
    const auto first = std::lower_bound(cardinality.begin(), cardinality.end(), c);
    wave_begin.push_back(static_cast<DownsetId>(first - cardinality.begin()));
  }
  std::vector<DownsetId> below(count, 0);
  for (std::size_t d = 0; d < count; ++d) {
    const auto begin = static_cast<std::size_t>(steps.begin[d]);
    const auto end = static_cast<std::size_t>(steps.begin[d + 1]);
    for (std::size_t i = begin; i < end; ++i) {
      below[static_cast<std::size_t>(steps.above[i])] = static_cast<DownsetId>(d);
    }
  }
  cardinality_ = std::move(cardinality);
  wave_begin_ = std::move(wave_begin);
  above_begin_ = std::move(steps.begin);
  above_ = std::move(steps.above);
  below_ = std::move(below);
  totally_ordered_ = true;
  for (DownsetId d = 1; d < size() && totally_ordered_; ++d) totally_ordered_ = subset(d - 1, d);
}

Lattice Lattice::shared(const std::optional<Lattice>& mine, util::Storage& storage) {
  const Lattice nothing;
  const Lattice& source = mine ? *mine : nothing;
  Lattice lattice;
  lattice.layers_ = static_cast<int>(storage.agree(source.layers_));
  lattice.words_ = static_cast<int>(storage.agree(source.words_));
  lattice.totally_ordered_ = storage.agree(source.totally_ordered_ ? 1 : 0) != 0;
  lattice.bits_ = storage.share(source.bits_);
  lattice.cardinality_ = storage.share(source.cardinality_);
  lattice.wave_begin_ = storage.share(source.wave_begin_);
  lattice.above_begin_ = storage.share(source.above_begin_);
  lattice.above_ = storage.share(source.above_);
  lattice.below_ = storage.share(source.below_);
  storage.publish();
  return lattice;
}

Lattice Lattice::enumerate(const model::Graph& graph, std::int64_t max_downsets,
                           const std::function<bool()>& stop) {
  const int layers = static_cast<int>(graph.layers.size());
  const auto words = static_cast<std::size_t>((layers + 63) / 64);
  const std::vector<Members> needed = successors(graph, words);
  Members all(words, 0);
  Members wave(words, 0);
  Steps steps;
  for (int size = 0; size < layers; ++size) {
    if (stop && stop()) throw Interrupted();
    Members next;
    std::vector<std::int64_t> grown;  // by set of the wave: where its larger sets begin in `next`
    for (std::size_t begin = 0; begin < wave.size(); begin += words) {
      const std::uint64_t* set = wave.data() + begin;
      grown.push_back(static_cast<std::int64_t>(next.size() / words));
      for (int layer = 0; layer < layers; ++layer) {
        if ((set[word_of(layer)] & bit_of(layer)) != 0) continue;
        if (!includes(set, needed[static_cast<std::size_t>(layer)])) continue;
        next.insert(next.end(), set, set + words);
        next[next.size() - words + word_of(layer)] |= bit_of(layer);
      }
    }
    const auto first = static_cast<DownsetId>(all.size() / words);
    const auto so_far = static_cast<std::int64_t>(steps.above.size());
    for (const DownsetId place : sort_unique(next, words)) steps.above.push_back(first + place);
    for (std::size_t i = 0; i < grown.size(); ++i) {
      steps.begin.push_back(so_far + grown[i]);
      const auto end =
          i + 1 < grown.size() ? steps.above.begin() + so_far + grown[i + 1] : steps.above.end();
      std::sort(steps.above.begin() + steps.begin.back(), end);
    }
    all.insert(all.end(), next.begin(), next.end());
    if (static_cast<std::int64_t>(all.size() / words) > max_downsets) {
      throw MemoryLimit("the graph \"" + graph.name + "\" has more than " +
                        std::to_string(max_downsets) +
                        " downsets; merge layers that always run together");
    }
    wave = std::move(next);
  }
  steps.begin.resize(steps.begin.size() + 2, static_cast<std::int64_t>(steps.above.size()));
  return Lattice(layers, std::move(all), std::move(steps));
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
  Steps steps;
  for (DownsetId d = 0; d < static_cast<DownsetId>(stages.size()); ++d) {
    steps.begin.push_back(d);
    steps.above.push_back(d + 1);
  }
  steps.begin.resize(stages.size() + 2, static_cast<std::int64_t>(stages.size()));
  return Lattice(layers, std::move(all), std::move(steps));
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
