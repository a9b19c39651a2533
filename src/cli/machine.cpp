#include "cli/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "nestplan/network/node_choice.hpp"
#include "nestplan/network/torus.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

/// What `step` does; its complaints are about `flag`.
template <typename Step>
void on_behalf_of(const char* flag, Step step) {
  try {
    step();
  } catch (const InvalidInput& error) {
    throw InvalidConfig(fmt::format("--{}: {}", flag, error.what()));
  } catch (const InvalidConfig& error) {
    throw InvalidConfig(fmt::format("--{}: {}", flag, error.what()));
  }
}

/// "NAME=VALUE" taken apart.
std::pair<std::string, std::string_view> split_setting(const char* flag, std::string_view text,
                                                       std::string_view form) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) {
    throw InvalidConfig(fmt::format("--{}: {} is not {}", flag, util::quoted(text), form));
  }
  return {std::string(text.substr(0, equals)), text.substr(equals + 1)};
}

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && stop == text.data() + text.size();
}

/// The share of others of every level or dimension, by its name.
std::map<std::string, double*> backgrounds(model::Cluster& cluster) {
  std::map<std::string, double*> by_name;
  if (auto* hierarchy = std::get_if<model::HierarchySpec>(&cluster.network)) {
    for (model::NetworkLevel& level : hierarchy->levels) by_name[level.name] = &level.background;
  } else {
    for (model::TorusDimension& dimension :
         std::get<model::TorusSpec>(cluster.network).dimensions) {
      by_name[dimension.name] = &dimension.background;
    }
  }
  return by_name;
}

void set_background(const Flags& flags, model::Cluster& cluster) {
  const std::map<std::string, double*> known = backgrounds(cluster);
  for (const std::string& text : flags.background) {
    const auto [name, share] = split_setting("background", text, "LEVEL=PERCENT");
    const auto found = known.find(name);
    if (found == known.end()) {
      std::vector<std::string> names;
      for (const auto& [level, background] : known) names.push_back(level);
      throw InvalidConfig(fmt::format("--background: the network has no {}{}", util::quoted(name),
                                      util::hint(name, names)));
    }
    double percent = 0;
    if (!parse(share, percent) || !(percent >= 0 && percent < 100)) {
      throw InvalidConfig(fmt::format("--background: {} is no percentage from 0 to below 100",
                                      util::quoted(share)));
    }
    *found->second = percent / 100;
  }
}

void choose(const Flags& flags, model::Cluster& cluster, std::vector<std::string>& remarks) {
  if (flags.segment && !flags.choose_nodes) {
    throw InvalidConfig("--segment: is for --choose-nodes");
  }
  if (!flags.choose_nodes) return;
  if (cluster.hosts.empty()) {
    throw InvalidConfig("--choose-nodes: the cluster does not name its hosts (\"hosts\")");
  }
  on_behalf_of("choose-nodes", [&] {
    const network::NodeChoice choice = network::choose_nodes(
        cluster,
        {network::available_hosts(cluster), *flags.choose_nodes, flags.segment.value_or(1)});
    std::vector<std::string> names;
    for (const std::int64_t host : choice.hosts) {
      names.push_back(cluster.hosts[static_cast<std::size_t>(host)].name);
    }
    const auto list = [&](const std::vector<std::int64_t>& hosts) {
      std::vector<std::string> of;
      for (const std::int64_t host : hosts) {
        of.push_back(cluster.hosts[static_cast<std::size_t>(host)].name);
      }
      return util::compress_hosts(of);
    };
    std::sort(names.begin(), names.end());
    remarks.push_back(fmt::format(
        "--choose-nodes: ask for {}{}", util::compress_hosts(names),
        choice.straddling == 0 ? ""
                               : fmt::format("; {} segments straddle blocks", choice.straddling)));
    if (!choice.chosen_unknown.empty()) {
      remarks.push_back(fmt::format("--choose-nodes: nothing is known of where {} are",
                                    list(choice.chosen_unknown)));
    }
    network::restrict_to_hosts(cluster, names);
  });
}

model::StageConstraints::Scope parse_scope(const std::string& name) {
  using Scope = model::StageConstraints::Scope;
  static const std::vector<std::pair<std::string, Scope>> kScopes{{"tp", Scope::kTensor},
                                                                  {"cp", Scope::kContext},
                                                                  {"ep", Scope::kExpert},
                                                                  {"dp", Scope::kData},
                                                                  {"pod", Scope::kPod}};
  std::vector<std::string> known;
  for (const auto& [scope, value] : kScopes) {
    if (scope == name) return value;
    known.push_back(scope);
  }
  throw InvalidConfig(fmt::format("--keep-inside: unknown group {}{}", util::quoted(name),
                                  util::hint(name, known)));
}

}  // namespace

namespace {

std::vector<std::int64_t> parse_box(const std::string& text) {
  std::vector<std::int64_t> box;
  for (const std::string_view part : util::split(text, 'x')) {
    if (!parse(part, box.emplace_back())) {
      throw InvalidConfig(
          fmt::format("--slice: {} is not a number of devices for every dimension, "
                      "such as 4x4x8",
                      util::quoted(text)));
    }
  }
  return box;
}

/// Leaves a box of a torus. It closes a ring along a dimension that it has whole and that is one,
/// and, consisting of whole cubes, along all of them.
void take_slice(const Flags& flags, model::Cluster& cluster) {
  if (flags.slice.empty()) return;
  auto* torus = std::get_if<model::TorusSpec>(&cluster.network);
  if (torus == nullptr) throw InvalidConfig("--slice: the network is no torus or mesh");
  const std::vector<std::int64_t> box = parse_box(flags.slice);
  if (const auto problem = network::slice_problem(*torus, box)) {
    throw InvalidConfig("--slice: " + *problem);
  }
  if (!cluster.hosts.empty() || !cluster.types.empty() || !cluster.unavailable.empty()) {
    throw InvalidConfig(
        "--slice: is for a cluster without named hosts, other devices and unavailable ones, whose "
        "places would be others in the slice");
  }
  bool whole_cubes = !torus->cube.empty();
  for (std::size_t d = 0; d < torus->cube.size(); ++d) {
    whole_cubes = whole_cubes && box[d] % torus->cube[d] == 0;
  }
  for (std::size_t d = 0; d < box.size(); ++d) {
    model::TorusDimension& dimension = torus->dimensions[d];
    dimension.wrap = whole_cubes || (dimension.wrap && box[d] == dimension.size);
    dimension.size = box[d];
  }
  if (!whole_cubes) torus->cube.clear();
}

}  // namespace

void apply_machine_flags(const Flags& flags, model::Cluster& cluster,
                         std::vector<std::string>& remarks) {
  take_slice(flags, cluster);
  if (!flags.nodelist.empty()) {
    on_behalf_of("nodelist",
                 [&] { network::restrict_to_hosts(cluster, util::expand_hosts(flags.nodelist)); });
  }
  if (!flags.exclude.empty()) {
    on_behalf_of("exclude",
                 [&] { network::without_hosts(cluster, util::expand_hosts(flags.exclude)); });
  }
  if (flags.whole_hosts) {
    on_behalf_of("whole-hosts", [&] { network::without_partial_hosts(cluster); });
  }
  choose(flags, cluster, remarks);
  set_background(flags, cluster);
}

void add_place_rules(const Flags& flags, const network::Network& network,
                     model::StageConstraints& rules) {
  const std::vector<std::string> domains = network.domains();
  for (const std::string& text : flags.keep_inside) {
    const auto [scope, domain] =
        split_setting("keep-inside", text, "GROUP=DOMAIN, such as ep=rack");
    if (std::find(domains.begin(), domains.end(), domain) == domains.end()) {
      throw InvalidConfig(fmt::format("--keep-inside: the network has no {}{}",
                                      util::quoted(domain),
                                      util::hint(std::string(domain), domains)));
    }
    rules.confined.push_back({parse_scope(scope), std::string(domain)});
  }
  std::map<std::int64_t, std::int64_t> position_of;
  for (const std::string& text : flags.stage_at) {
    const auto [name, place] = split_setting("stage-at", text, "STAGE=POSITION, such as last=64");
    std::int64_t stage = 0;
    if (name != "last" && (!parse(std::string_view(name), stage) || stage < 2)) {
      throw InvalidConfig(
          fmt::format("--stage-at: {} is no stage: last, or a number from 2 (the first stage is at "
                      "position 0)",
                      util::quoted(name)));
    }
    std::int64_t position = 0;
    if (!parse(place, position) || position < 1) {
      throw InvalidConfig(
          fmt::format("--stage-at: {} is no position: a device's number in its pod, "
                      "1 or more",
                      util::quoted(place)));
    }
    if (name != "last" && (flags.pp.size() != 1 || stage > flags.pp.front())) {
      throw InvalidConfig(
          fmt::format("--stage-at: stage {} needs one --pp of at least that", stage));
    }
    // The last stage may be called by its number as well.
    const bool last = name == "last" || stage == flags.pp.front();
    const auto [known, inserted] = position_of.emplace(last ? -1 : stage - 1, position);
    if (!inserted && known->second != position) {
      throw InvalidConfig(fmt::format("--stage-at: stage {} has two positions", name));
    }
  }
  for (const auto& [stage, position] : position_of) rules.places.push_back({stage, position});
}

}  // namespace nestplan::cli
