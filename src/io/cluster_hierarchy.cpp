#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

/// A number, or a list of them with one for each block of the level; equal ones are a number.
void read_fanout(const Field& field, model::NetworkLevel& level) {
  if (!field.json().is_array()) {
    level.fanout = field.integer(1, kMostDevices);
    return;
  }
  std::vector<std::int64_t> fanouts;
  for (const Field& item : field.items()) fanouts.push_back(item.integer(1, kMostDevices));
  if (fanouts.empty()) field.fail("must list at least one block");
  level.fanout = *std::max_element(fanouts.begin(), fanouts.end());
  level.fanouts = std::move(fanouts);
}

model::Rails read_rails(const Field& field, std::size_t index, std::size_t levels) {
  const std::vector<std::string> known{"joined", "isolated"};
  const std::string text = field.text();
  if (text != known[0] && text != known[1]) {
    field.fail(
        fmt::format("unknown kind of rails {}{}", util::quoted(text), util::hint(text, known)));
  }
  if (index != 1) {
    field.fail("only the second level, right above the nodes, has rails");
  }
  if (text == "isolated") return model::Rails::kIsolated;
  if (levels == 2) {
    field.fail(
        "joined rails meet on the level above, and there is none (write \"isolated\" if they never "
        "meet, or leave it out)");
  }
  return model::Rails::kJoined;
}

model::NetworkLevel read_level(const Field& field, std::size_t index, std::size_t levels) {
  field.expect(cluster_keys::kLevel);
  model::NetworkLevel level;
  const auto name = field.find("name");
  level.name = name ? name->identifier() : fmt::format("level{}", index);
  read_fanout(field.at("fanout"), level);
  read_rates(field, level);
  if (const auto ports = field.find("nics"); ports && index == 0) {
    ports->fail("is what a block of the level below has; the first level joins single devices");
  }
  if (const auto rails = field.find("rails")) level.rails = read_rails(*rails, index, levels);
  return level;
}

/// Checks that the lists of blocks add up from level to level, and turns those of equal ones into
/// numbers. Returns the places of the network.
std::int64_t settle_blocks(const Field& field, std::vector<model::NetworkLevel>& levels) {
  std::int64_t blocks = 1;
  const std::vector<Field> items = field.items();
  for (std::size_t l = levels.size(); l-- > 0;) {
    model::NetworkLevel& level = levels[l];
    std::vector<std::int64_t>& fanouts = level.fanouts;
    if (!fanouts.empty() && std::ssize(fanouts) != blocks) {
      const std::string above = l + 1 < levels.size()
                                    ? fmt::format("the levels above have {}", blocks)
                                    : std::string("the last level is one block, the whole network");
      items[l].at("fanout").fail(fmt::format("lists {} block{}, but {}", fanouts.size(),
                                             fanouts.size() == 1 ? "" : "s", above));
    }
    if (fanouts.empty()) {
      blocks *= level.fanout;  // both factors are below 2^31
    } else {
      blocks = 0;
      for (const std::int64_t fanout : fanouts) {
        blocks = std::min(blocks + fanout, kMostDevices + 1);
      }
      if (std::equal(fanouts.begin() + 1, fanouts.end(), fanouts.begin())) fanouts.clear();
    }
    if (blocks > kMostDevices) {
      field.fail(fmt::format("the fan-outs make more than {} devices", kMostDevices));
    }
  }
  return blocks;
}

}  // namespace

void read_hierarchy(const Field& field, model::Cluster& cluster) {
  field.expect(cluster_keys::kNetwork);
  model::HierarchySpec network;
  if (const auto collectives = field.find("collectives")) {
    network.collectives = collectives->identifier();
  }
  const Field levels = field.at("levels");
  const std::vector<Field> items = levels.items();
  for (const Field& item : items) {
    network.levels.push_back(read_level(item, network.levels.size(), items.size()));
  }
  if (network.levels.empty()) levels.fail("must have at least one level");
  const std::int64_t devices = settle_blocks(levels, network.levels);
  if (const auto limit = field.find("devices")) {
    cluster.limit = limit->integer(1, kMostDevices);
    if (*cluster.limit > devices) {
      limit->fail(fmt::format("is {}, but the fan-outs make only {}", *cluster.limit, devices));
    }
  }
  cluster.network = std::move(network);
}

}  // namespace nestplan::io
