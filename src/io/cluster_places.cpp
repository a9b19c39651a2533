#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

/// "3,17-20": whole numbers and ranges of them below `end`, ascending, each once.
std::set<std::int64_t> read_numbers(const Field& field, std::string_view text, std::int64_t end) {
  std::set<std::int64_t> numbers;
  for (const std::string_view part : util::split(text, ',')) {
    const auto number = [&](std::string_view digits) {
      std::int64_t value = 0;
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value);
      if (error != std::errc{} || stop != digits.data() + digits.size() || value < 0) {
        field.fail(fmt::format("{} is no number or range such as 3 or 17-20", util::quoted(part)));
      }
      if (value >= end) field.fail(fmt::format("{} is beyond the last, {}", value, end - 1));
      return value;
    };
    const std::size_t dash = part.find('-');
    const std::int64_t first = number(part.substr(0, dash));
    const std::int64_t last =
        dash == std::string_view::npos ? first : number(part.substr(dash + 1));
    if (last < first) field.fail(fmt::format("{} runs backwards", util::quoted(part)));
    for (std::int64_t i = first; i <= last; ++i) numbers.insert(i);
  }
  return numbers;
}

/// Finds places by the names of their hosts.
class HostPlaces {
 public:
  explicit HostPlaces(const model::Cluster& cluster) : cluster_(cluster) {
    std::int64_t first = 0;
    for (const model::Host& host : cluster.hosts) {
      first_.emplace(host.name, std::pair(&host, first));
      first += host.places;
    }
  }

  /// Of all devices of the hosts in a list.
  void add_hosts(const Field& field, std::set<std::int64_t>& places) const {
    for (const std::string& name : expand(field, field.text())) {
      const auto& [host, first] = find(field, name);
      for (std::int64_t i = 0; i < host->places; ++i) places.insert(first + i);
    }
  }

  /// Of the devices that "HOSTS:NUMBERS" means, numbers being the hosts' own.
  void add_devices(const Field& field, std::set<std::int64_t>& places) const {
    const std::string text = field.text();
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos) {
      field.fail(fmt::format("{} is not HOST:NUMBERS, such as \"node7:3\" or \"node[7-9]:0-3\"",
                             util::quoted(text)));
    }
    for (const std::string& name : expand(field, text.substr(0, colon))) {
      const auto& [host, first] = find(field, name);
      for (const std::int64_t number : read_numbers(field, text.substr(colon + 1), host->places)) {
        places.insert(first + place_in(*host, number));
      }
    }
  }

 private:
  using Entry = std::pair<const model::Host*, std::int64_t>;

  static std::vector<std::string> expand(const Field& field, const std::string& list) {
    try {
      return util::expand_hosts(list);
    } catch (const InvalidInput& error) {
      field.fail(error.what());
    }
  }

  static std::int64_t place_in(const model::Host& host, std::int64_t number) {
    if (host.local.empty()) return number;
    return std::find(host.local.begin(), host.local.end(), number) - host.local.begin();
  }

  const Entry& find(const Field& field, const std::string& name) const {
    if (first_.empty()) field.fail("the cluster does not name its hosts (give \"hosts\")");
    const auto found = first_.find(name);
    if (found != first_.end()) return found->second;
    std::vector<std::string> known;
    for (const model::Host& host : cluster_.hosts) known.push_back(host.name);
    field.fail(fmt::format("no host is called {}{}", util::quoted(name), util::hint(name, known)));
  }

  const model::Cluster& cluster_;
  std::map<std::string, Entry, std::less<>> first_;
};

std::vector<model::PlaceRun> runs_of(const std::set<std::int64_t>& places) {
  std::vector<model::PlaceRun> runs;
  for (const std::int64_t place : places) {
    if (!runs.empty() && runs.back().first + runs.back().count == place) {
      ++runs.back().count;
    } else {
      runs.push_back({place, 1});
    }
  }
  return runs;
}

/// The places that an object with `hosts`, `devices` and `places` means.
std::set<std::int64_t> read_places(const Field& field, const model::Cluster& cluster) {
  std::set<std::int64_t> places;
  const HostPlaces hosts(cluster);
  if (const auto list = field.find("hosts")) hosts.add_hosts(*list, places);
  if (const auto devices = field.find("devices")) {
    for (const Field& item : devices->items()) hosts.add_devices(item, places);
  }
  if (const auto numbers = field.find("places")) {
    places.merge(read_numbers(*numbers, numbers->text(), cluster.places()));
  }
  return places;
}

/// Sizes of the blocks of every level that has equal ones; of an uneven nearest level all sizes.
std::vector<std::int64_t> block_sizes(const model::Cluster& cluster) {
  std::vector<std::int64_t> sizes = cluster.host_sizes();
  const auto* hierarchy = std::get_if<model::HierarchySpec>(&cluster.network);
  if (hierarchy == nullptr) return util::sorted_unique(std::move(sizes));
  std::int64_t size = 1;
  for (const model::NetworkLevel& level : hierarchy->levels) {
    if (!level.fanouts.empty()) break;
    sizes.push_back(size *= level.fanout);
  }
  return util::sorted_unique(std::move(sizes));
}

/// Where a host is not a block of the nearest level: part of a rack that is one switch, or a board
/// of several.
void read_host_size(const Field& field, model::Cluster& cluster) {
  if (!cluster.hosts.empty()) field.fail("this kind of network knows its hosts itself");
  const std::int64_t size = field.integer(1, kMostDevices);
  for (const std::int64_t block : block_sizes(cluster)) {
    if (block % size == 0 || size % block == 0) continue;
    field.fail(
        fmt::format("is {}, which neither divides the {} devices of a block nor is a "
                    "multiple of them",
                    size, block));
  }
  if (cluster.places() % size != 0) {
    field.fail(fmt::format("is {}, which does not divide the {} places", size, cluster.places()));
  }
  cluster.places_per_host = size;
}

void read_hosts(const Field& field, model::Cluster& cluster) {
  if (!cluster.hosts.empty()) field.fail("this kind of network names its hosts itself");
  std::vector<std::string> names;
  try {
    names = util::expand_hosts(field.text());
  } catch (const InvalidInput& error) {
    field.fail(error.what());
  }
  const std::vector<std::int64_t> sizes = cluster.host_sizes();
  if (names.size() != sizes.size()) {
    field.fail(fmt::format("names {} hosts, but the network has {}", names.size(), sizes.size()));
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!seen.insert(names[i]).second) {
      field.fail(fmt::format("names {} twice", util::quoted(names[i])));
    }
    cluster.hosts.push_back({names[i], sizes[i]});
  }
}

void read_other_devices(const Field& field, model::Cluster& cluster) {
  std::map<std::int64_t, int> type_of;
  for (const Field& item : field.items()) {
    item.expect(cluster_keys::kOtherDevice);
    cluster.other_devices.push_back(read_device(item));
    if (std::ssize(cluster.other_devices) > kMostDeviceTypes - 1) {
      field.fail(fmt::format("a cluster has at most {} types of devices", kMostDeviceTypes));
    }
    const auto type = static_cast<int>(cluster.other_devices.size());
    const std::set<std::int64_t> places = read_places(item, cluster);
    if (places.empty())
      item.fail("says nowhere where it is: give \"hosts\", \"devices\" or \"places\"");
    for (const std::int64_t place : places) {
      if (!type_of.emplace(place, type).second) {
        item.fail(fmt::format("place {} already has devices of another type", place));
      }
    }
  }
  for (const auto& [place, type] : type_of) {
    if (!cluster.types.empty()) {
      model::TypeRun& last = cluster.types.back();
      if (last.type == type && last.places.first + last.places.count == place) {
        ++last.places.count;
        continue;
      }
    }
    cluster.types.push_back({{place, 1}, type});
  }
}

void read_unavailable(const Field& field, model::Cluster& cluster) {
  field.expect(cluster_keys::kUnavailable);
  cluster.unavailable = runs_of(read_places(field, cluster));
  if (cluster.limit || cluster.devices() > 0) return;
  field.fail("leaves no device");
}

}  // namespace

void read_what_is_there(const Field& root, model::Cluster& cluster) {
  if (const auto per_host = root.find("devices_per_host")) read_host_size(*per_host, cluster);
  if (const auto hosts = root.find("hosts")) read_hosts(*hosts, cluster);
  if (const auto others = root.find("other_devices")) read_other_devices(*others, cluster);
  if (const auto unavailable = root.find("unavailable")) read_unavailable(*unavailable, cluster);
  if (cluster.limit && *cluster.limit > cluster.devices()) {
    root.at("unavailable")
        .fail(fmt::format("leaves {} devices, less than the {} of network.devices",
                          cluster.devices(), *cluster.limit));
  }
}

}  // namespace nestplan::io
