#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/network/slurm_topology.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

constexpr std::int64_t kMostPerHost = 1024;

/// Level `index` from the inside, the nodes' own being 0, which need not have a name.
model::NetworkLevel read_level(const Field& field, std::size_t index) {
  field.expect(cluster_keys::kSlurmLevel);
  model::NetworkLevel level;
  const auto name = field.find("name");
  level.name = name ? name->identifier() : index == 0 ? "node" : fmt::format("level{}", index);
  read_rates(field, level);
  if (const auto ports = field.find("nics"); ports && index == 0) {
    ports->fail("is what a node goes out by; it belongs to the levels above");
  }
  return level;
}

/// The topology file beside the cluster file.
network::SlurmTopology read_topology(const Field& field) {
  const std::filesystem::path named = field.identifier();
  const std::filesystem::path path = std::filesystem::path(field.file()).parent_path() / named;
  try {
    return network::parse_slurm_topology(read_text(path), path.string());
  } catch (const InvalidInput& error) {
    field.fail(error.what());
  }
}

std::string levels_text(int count) {
  return fmt::format("{} level{}", count, count == 1 ? "" : "s");
}

}  // namespace

void read_slurm(const Field& field, model::Cluster& cluster) {
  field.expect(cluster_keys::kSlurm);
  network::SlurmTopology topology = read_topology(field.at("topology"));
  if (const auto nodes = field.find("nodes")) {
    const std::vector<std::string> hosts = nodes->named(util::expand_hosts);
    try {
      topology = network::with_hosts(topology, hosts);
    } catch (const InvalidInput& error) {
      nodes->fail(error.what());
    }
  }
  const std::int64_t per_node = field.at("devices_per_node").integer(1, kMostPerHost);
  const model::NetworkLevel node = read_level(field.at("node"), 0);
  std::vector<model::NetworkLevel> levels;
  const Field given = field.at("levels");
  for (const Field& item : given.items()) levels.push_back(read_level(item, levels.size() + 1));

  const int needed = network::levels_above_hosts(topology);
  const bool extra = !topology.unknown.empty() && std::ssize(levels) == needed + 1;
  if (std::ssize(levels) != needed && !extra) {
    const std::string roots = topology.roots() > 1
                                  ? fmt::format(", the last to join its {} roots", topology.roots())
                                  : std::string();
    const std::string unknown =
        topology.unknown.empty() ? "" : ", and may have one more for nodes it does not mention";
    given.fail(fmt::format("has {}, but the topology has {} above its nodes{}{}",
                           levels_text(static_cast<int>(levels.size())), levels_text(needed), roots,
                           unknown));
  }
  network::set_slurm_topology(cluster, topology, per_node, node, std::move(levels));
  if (const auto collectives = field.find("collectives")) {
    cluster.hierarchy().collectives = collectives->identifier();
  }
}

void refuse_bare_topology(std::string_view text, const std::string& file) {
  if (!network::is_slurm_topology(text)) return;
  const network::SlurmTopology topology = network::parse_slurm_topology(text, file);
  throw InvalidInput(fmt::format(
      "{}: is a Slurm topology, which has no devices and rates; give a cluster file beside it with "
      "\"network\": {{\"kind\": \"slurm\", \"topology\": \"{}\", \"devices_per_node\": 8, "
      "\"node\": "
      "{{\"bandwidth\": \"450 GB/s\", \"latency\": \"1 us\"}}, \"levels\": [{} of the same, from "
      "the leaves up]}}",
      file, std::filesystem::path(file).filename().string(),
      network::levels_above_hosts(topology)));
}

}  // namespace nestplan::io
