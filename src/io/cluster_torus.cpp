#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/network/torus.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

constexpr std::array<const char*, network::kMostTorusDimensions> kNames{"x", "y", "z",
                                                                        "u", "v", "w"};

double read_latency(const Field& field, const char* example) {
  const double seconds = field.quantity(util::parse_seconds, example);
  if (seconds > kMostSeconds) field.fail("is longer than any network's");
  return seconds;
}

model::TorusDimension read_dimension(const Field& field, std::size_t index, bool wrap) {
  field.expect(cluster_keys::kDimension);
  model::TorusDimension dimension;
  const auto name = field.find("name");
  dimension.name = name ? name->identifier() : kNames[index];
  dimension.size = field.at("size").integer(1, network::kMostTorusPlaces);
  const auto closed = field.find("wrap");
  dimension.wrap = closed ? closed->boolean() : wrap;
  dimension.bandwidth = positive(field.at("bandwidth"), util::parse_bandwidth, "45 GB/s");
  dimension.latency_s = read_latency(field.at("latency"), "1 us");
  if (const auto background = field.find("background")) {
    dimension.background = background->number(1);
    if (dimension.background >= 1) background->fail("must be below 1: nothing would be left");
  }
  return dimension;
}

std::string text_of(const std::vector<std::int64_t>& box) {
  return fmt::format("{}", fmt::join(box, "x"));
}

/// A box that divides `whole`, which is the `what` of the network; empty if it is not given.
std::vector<std::int64_t> read_box(const Field& field, const char* key, const char* what,
                                   const std::vector<std::int64_t>& whole) {
  const auto list = field.find(key);
  if (!list) return {};
  std::vector<std::int64_t> box;
  for (const Field& item : list->items()) {
    box.push_back(item.integer(1, network::kMostTorusPlaces));
  }
  if (box.size() != whole.size()) {
    list->fail(fmt::format("has {} sizes, but there are {} dimensions", box.size(), whole.size()));
  }
  for (std::size_t d = 0; d < box.size(); ++d) {
    if (whole[d] % box[d] == 0) continue;
    std::int64_t nearest = 1;
    for (std::int64_t size = 1; size <= whole[d]; ++size) {
      if (whole[d] % size == 0 && std::abs(size - box[d]) < std::abs(nearest - box[d])) {
        nearest = size;
      }
    }
    list->fail(
        fmt::format("{} does not divide the {} of {}: {} is no divisor of {} (the nearest "
                    "is {})",
                    text_of(box), what, text_of(whole), box[d], whole[d], nearest));
  }
  return box;
}

/// Slices are one more dimension.
void add_slices(const Field& field, std::int64_t slice, model::TorusSpec& network) {
  field.expect(cluster_keys::kSlices);
  if (network.dimensions.size() == network::kMostTorusDimensions) {
    field.fail(
        fmt::format("slices may have {} dimensions at most", network::kMostTorusDimensions - 1));
  }
  model::TorusDimension dimension;
  dimension.name = "slice";
  dimension.size = field.at("count").integer(1, network::kMostTorusPlaces);
  dimension.wrap = false;
  dimension.bandwidth = positive(field.at("bandwidth"), util::parse_bandwidth, "6.25 GB/s");
  dimension.latency_s = read_latency(field.at("latency"), "10 us");
  dimension.switched = true;
  if (dimension.size > network::kMostTorusPlaces / slice) {
    field.fail(fmt::format("make more than {} devices", network::kMostTorusPlaces));
  }
  if (!network.host.empty()) network.host.push_back(1);
  if (!network.cube.empty()) network.cube.push_back(1);
  network.dimensions.push_back(std::move(dimension));
}

}  // namespace

void read_torus(const Field& field, model::Cluster& cluster) {
  field.expect(cluster_keys::kTorus);
  model::TorusSpec network;
  if (const auto collectives = field.find("collectives")) {
    network.collectives = collectives->identifier();
  }
  const bool wrap = field.at("kind").text() == "torus";
  const Field dimensions = field.at("dimensions");
  const std::vector<Field> items = dimensions.items();
  if (items.empty() || items.size() > network::kMostTorusDimensions) {
    dimensions.fail(fmt::format("must be 1 to {} dimensions, not {}", network::kMostTorusDimensions,
                                items.size()));
  }
  std::vector<std::int64_t> whole;
  std::int64_t devices = 1;
  for (const Field& item : items) {
    model::TorusDimension dimension = read_dimension(item, network.dimensions.size(), wrap);
    for (const model::TorusDimension& other : network.dimensions) {
      if (other.name == dimension.name) {
        item.fail(fmt::format("a second dimension named {}", util::quoted(dimension.name)));
      }
    }
    devices *= dimension.size;
    if (devices > network::kMostTorusPlaces) {
      dimensions.fail(fmt::format("make more than {} devices", network::kMostTorusPlaces));
    }
    whole.push_back(dimension.size);
    network.dimensions.push_back(std::move(dimension));
  }
  network.cube = read_box(field, "cube", "whole", whole);
  network.host = network.cube.empty() ? read_box(field, "host", "whole", whole)
                                      : read_box(field, "host", "cube", network.cube);
  if (const auto slices = field.find("slices")) add_slices(*slices, devices, network);
  cluster.network = std::move(network);
}

}  // namespace nestplan::io
