#include "nestplan/network/slurm_topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::network {
namespace {

constexpr std::size_t kMostLevels = 20;  ///< as Slurm

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// A line without its comment, together with those that continue it.
struct Line {
  std::size_t number = 0;  ///< of the first one, from 1
  std::string text;
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  bool continued = false;
  std::size_t number = 0;
  for (std::string_view raw : util::split(text, '\n')) {
    ++number;
    const auto comment = raw.find('#');
    const bool cut = comment != std::string_view::npos;
    if (cut) raw = raw.substr(0, comment);
    while (!raw.empty() && is_blank(raw.back())) raw.remove_suffix(1);
    if (!continued) lines.push_back({number, ""});
    continued = !cut && raw.ends_with('\\');
    if (continued) raw.remove_suffix(1);
    lines.back().text += raw;
  }
  std::erase_if(lines, [](const Line& line) {
    return std::all_of(line.text.begin(), line.text.end(), is_blank);
  });
  return lines;
}

struct Setting {
  std::string key;  ///< as it is known
  std::string value;
};

const std::vector<std::string>& known_settings() {
  static const std::vector<std::string> known{"SwitchName", "Switches",  "Nodes",
                                              "LinkSpeed",  "BlockName", "BlockSizes"};
  return known;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : file_(file) {
    for (const Line& line : lines_of(text)) read_line(line);
  }

  SlurmTopology topology() {
    if (!switches_.empty() && !blocks_.empty()) {
      fail(blocks_.front().line, "a file is for topology/tree or for topology/block, not for both");
    }
    if (switches_.empty() && blocks_.empty()) {
      throw InvalidInput(fmt::format("{}: has neither a SwitchName nor a BlockName", file_));
    }
    if (!blocks_.empty()) return of_blocks();
    if (sizes_line_ > 0) fail(sizes_line_, "BlockSizes needs blocks (BlockName)");
    return of_switches();
  }

 private:
  struct Entry {
    std::size_t line = 0;
    std::string name;
    std::vector<std::string> nodes;
    std::vector<std::string> switches;
  };

  [[noreturn]] void fail(std::size_t line, const std::string& problem) const {
    throw InvalidInput(fmt::format("{}: line {}: {}", file_, line, problem));
  }

  std::vector<Setting> settings_of(const Line& line) const {
    std::vector<Setting> settings;
    std::string_view rest = line.text;
    while (true) {
      while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
      if (rest.empty()) return settings;
      const auto equals = rest.find('=');
      const std::string_view key = rest.substr(0, equals);
      if (equals == std::string_view::npos ||
          key.find_first_of(" \t\"") != std::string_view::npos) {
        fail(line.number, fmt::format("expected key=value, not {}", util::quoted(rest, 40)));
      }
      rest.remove_prefix(equals + 1);
      std::size_t end = std::min(rest.find_first_of(" \t\r"), rest.size());
      std::string_view value = rest.substr(0, end);
      if (rest.starts_with('"')) {
        const auto close = rest.find('"', 1);
        if (close == std::string_view::npos) fail(line.number, "a quoted value is not closed");
        value = rest.substr(1, close - 1);
        end = close + 1;
      }
      rest.remove_prefix(end);
      const auto known =
          std::find_if(known_settings().begin(), known_settings().end(),
                       [&](const std::string& name) { return lowered(name) == lowered(key); });
      if (known == known_settings().end()) {
        fail(line.number,
             fmt::format("unknown key {}{}", util::quoted(key), util::hint(key, known_settings())));
      }
      for (const Setting& other : settings) {
        if (other.key == *known) fail(line.number, fmt::format("{} is given twice", *known));
      }
      settings.push_back({*known, std::string(value)});
    }
  }

  std::vector<std::string> hosts_of(const Line& line, const Setting& setting) const {
    try {
      return util::expand_hosts(setting.value);
    } catch (const InvalidInput& error) {
      fail(line.number, fmt::format("{}: {}", setting.key, error.what()));
    }
  }

  void read_line(const Line& line) {
    const std::vector<Setting> settings = settings_of(line);
    const Setting& first = settings.front();
    if (first.key == "BlockSizes") {
      if (settings.size() > 1) fail(line.number, "BlockSizes stands alone on its line");
      read_sizes(line, first.value);
      return;
    }
    const bool is_switch = first.key == "SwitchName";
    if (!is_switch && first.key != "BlockName") {
      fail(
          line.number,
          fmt::format("a line starts with SwitchName, BlockName or BlockSizes, not {}", first.key));
    }
    Entry entry{line.number, first.value, {}, {}};
    if (entry.name.empty()) fail(line.number, fmt::format("{} is empty", first.key));
    for (std::size_t i = 1; i < settings.size(); ++i) {
      const Setting& setting = settings[i];
      if (setting.key == "Nodes") {
        entry.nodes = hosts_of(line, setting);
      } else if (is_switch && setting.key == "Switches") {
        entry.switches = hosts_of(line, setting);
      } else if (!is_switch || setting.key != "LinkSpeed") {
        fail(line.number, fmt::format("{} is not for a line with {}", setting.key, first.key));
      }
    }
    if (!entry.nodes.empty() && !entry.switches.empty()) {
      fail(line.number, fmt::format("switch {} has both Nodes and Switches", entry.name));
    }
    if (!is_switch && entry.nodes.empty()) {
      fail(line.number, fmt::format("block {} has no Nodes", entry.name));
    }
    const auto [earlier, fresh] = line_of_name_.try_emplace(entry.name, line.number);
    if (!fresh) {
      fail(line.number, fmt::format("{} {} has been given on line {} already",
                                    is_switch ? "switch" : "block", entry.name, earlier->second));
    }
    (is_switch ? switches_ : blocks_).push_back(std::move(entry));
  }

  void read_sizes(const Line& line, const std::string& value) {
    if (sizes_line_ > 0) {
      fail(line.number, fmt::format("BlockSizes has been given on line {} already", sizes_line_));
    }
    sizes_line_ = line.number;
    for (const std::string_view part : util::split(value, ',')) {
      std::int64_t size = 0;
      const char* const end = part.data() + part.size();
      const auto [stop, error] = std::from_chars(part.data(), end, size);
      if (error != std::errc{} || stop != end || size < 1) {
        fail(line.number, fmt::format("BlockSizes: {} is no number of nodes", util::quoted(part)));
      }
      const std::int64_t base = sizes_.empty() ? size : sizes_.front();
      const auto times = static_cast<std::uint64_t>(size / base);
      if (size % base != 0 || !std::has_single_bit(times)) {
        fail(line.number, fmt::format("BlockSizes: {} is not {} times a power of two", size, base));
      }
      if (!sizes_.empty() && size <= sizes_.back()) {
        fail(line.number, "BlockSizes: sizes must ascend");
      }
      sizes_.push_back(size);
    }
  }

  void claim(std::unordered_map<std::string, std::string>& owner, const Entry& entry,
             const std::string& host) const {
    const auto [other, fresh] = owner.try_emplace(host, entry.name);
    if (!fresh) {
      fail(entry.line, other->second == entry.name
                           ? fmt::format("{} lists node {} twice", entry.name, host)
                           : fmt::format("node {} is in {} already", host, other->second));
    }
  }

  SlurmTopology of_blocks() const {
    SlurmTopology topology;
    std::unordered_map<std::string, std::string> owner;
    SlurmTopology::Level& base = topology.levels.emplace_back();
    for (const Entry& block : blocks_) {
      if (!sizes_.empty() && std::ssize(block.nodes) < sizes_.front()) {
        fail(block.line, fmt::format("block {} has {} nodes, less than the base size of {}",
                                     block.name, block.nodes.size(), sizes_.front()));
      }
      for (const std::string& host : block.nodes) {
        claim(owner, block, host);
        topology.hosts.push_back(host);
        base.block.push_back(static_cast<std::int32_t>(base.names.size()));
      }
      base.names.push_back(block.name);
    }
    const std::vector<std::int32_t> base_block = base.block;
    const auto blocks = static_cast<std::int64_t>(blocks_.size());
    const auto join = [&](std::int64_t count) {
      SlurmTopology::Level& level = topology.levels.emplace_back();
      for (const std::int32_t block : base_block) {
        level.block.push_back(static_cast<std::int32_t>(block / count));
      }
      level.names.resize(static_cast<std::size_t>((blocks + count - 1) / count));
    };
    for (std::size_t i = 1; i < sizes_.size() && topology.roots() > 1; ++i) {
      join(sizes_[i] / sizes_.front());
    }
    if (topology.roots() > 1) join(blocks);
    return topology;
  }

  /// Heights of switches over their leaves; finds what is no tree.
  std::vector<std::size_t> heights(const std::vector<std::vector<std::size_t>>& children) const {
    constexpr std::size_t kUnseen = 1000, kOpen = 1001;
    std::vector<std::size_t> height(switches_.size(), kUnseen);
    std::function<void(std::size_t, std::size_t)> visit = [&](std::size_t s, std::size_t depth) {
      if (height[s] == kOpen) {
        fail(switches_[s].line, fmt::format("switch {} is below itself", switches_[s].name));
      }
      if (height[s] != kUnseen) return;
      height[s] = kOpen;
      std::size_t result = 0;
      for (const std::size_t child : children[s]) {
        if (depth < kMostLevels) visit(child, depth + 1);
        result = std::max(result, height[child] + 1);
      }
      if (result >= kMostLevels) {
        fail(switches_[s].line, fmt::format("the tree has more than {} levels", kMostLevels));
      }
      height[s] = result;
    };
    for (std::size_t s = 0; s < switches_.size(); ++s) visit(s, 1);
    return height;
  }

  SlurmTopology of_switches() const {
    std::unordered_map<std::string, std::size_t> index;
    std::vector<std::string> names;
    for (const Entry& entry : switches_) {
      index.emplace(entry.name, names.size());
      names.push_back(entry.name);
    }
    std::vector<std::vector<std::size_t>> children(switches_.size());
    std::vector<std::optional<std::size_t>> parent(switches_.size());
    for (std::size_t s = 0; s < switches_.size(); ++s) {
      for (const std::string& name : switches_[s].switches) {
        const auto child = index.find(name);
        if (child == index.end()) {
          fail(switches_[s].line,
               fmt::format("there is no switch {}{}", util::quoted(name), util::hint(name, names)));
        }
        if (parent[child->second]) {
          fail(switches_[s].line,
               fmt::format("switch {} is below {} already", name, names[*parent[child->second]]));
        }
        parent[child->second] = s;
        children[s].push_back(child->second);
      }
    }
    const std::vector<std::size_t> height = heights(children);
    SlurmTopology topology;
    topology.levels.resize(*std::max_element(height.begin(), height.end()) + 1);
    std::unordered_map<std::string, std::string> owner;
    // opens the blocks of a switch on its level and those above it up to its parent's
    std::function<void(std::size_t, std::size_t)> append = [&](std::size_t s, std::size_t below) {
      const std::size_t before = topology.hosts.size();
      for (std::size_t level = height[s]; level < below; ++level) {
        topology.levels[level].names.push_back(level == height[s] ? switches_[s].name : "");
      }
      for (const std::size_t child : children[s]) append(child, height[s]);
      for (const std::string& host : switches_[s].nodes) {
        claim(owner, switches_[s], host);
        topology.hosts.push_back(host);
        for (SlurmTopology::Level& level : topology.levels) {
          level.block.push_back(static_cast<std::int32_t>(level.names.size()) - 1);
        }
      }
      if (topology.hosts.size() > before) return;
      // nothing below: the blocks go again
      for (std::size_t level = below; level-- > height[s];) topology.levels[level].names.pop_back();
    };
    for (std::size_t s = 0; s < switches_.size(); ++s) {
      if (!parent[s]) append(s, topology.levels.size());
    }
    if (topology.hosts.empty()) {
      throw InvalidInput(fmt::format("{}: no switch has Nodes", file_));
    }
    return topology;
  }

  std::string file_;
  std::vector<Entry> switches_, blocks_;
  std::unordered_map<std::string, std::size_t> line_of_name_;
  std::vector<std::int64_t> sizes_;
  std::size_t sizes_line_ = 0;
};

}  // namespace

SlurmTopology parse_slurm_topology(std::string_view text, const std::string& file) {
  return Reader(text, file).topology();
}

bool is_slurm_topology(std::string_view text) {
  const std::vector<Line> lines = lines_of(text);
  if (lines.empty()) return false;
  const auto start = lines.front().text.find_first_not_of(" \t\r");
  const std::string first = lowered(lines.front().text.substr(start));
  return first.starts_with("switchname=") || first.starts_with("blockname=") ||
         first.starts_with("blocksizes=");
}

SlurmTopology with_hosts(const SlurmTopology& topology, std::span<const std::string> hosts) {
  std::unordered_set<std::string> wanted;
  for (const std::string& host : hosts) {
    if (!wanted.insert(host).second) {
      throw InvalidInput(fmt::format("host {} is given twice", util::quoted(host)));
    }
  }
  SlurmTopology result;
  std::vector<std::size_t> kept;
  for (std::size_t h = 0; h < topology.hosts.size(); ++h) {
    if (wanted.erase(topology.hosts[h]) == 0) continue;
    kept.push_back(h);
    result.hosts.push_back(topology.hosts[h]);
  }
  if (kept.empty()) throw InvalidInput("the topology has none of the hosts");
  for (const SlurmTopology::Level& from : topology.levels) {
    SlurmTopology::Level& to = result.levels.emplace_back();
    std::int32_t last = -1;
    for (const std::size_t h : kept) {
      if (from.block[h] != last)
        to.names.push_back(from.names[static_cast<std::size_t>(from.block[h])]);
      last = from.block[h];
      to.block.push_back(static_cast<std::int32_t>(to.names.size()) - 1);
    }
  }
  for (const std::string& host : hosts) {
    if (wanted.contains(host)) result.unknown.push_back(host);
  }
  return result;
}

int levels_above_hosts(const SlurmTopology& topology) {
  return static_cast<int>(topology.levels.size()) + (topology.roots() > 1 ? 1 : 0);
}

void set_slurm_topology(model::Cluster& cluster, const SlurmTopology& topology,
                        std::int64_t devices_per_host, const model::NetworkLevel& node,
                        std::vector<model::NetworkLevel> levels) {
  const auto needed = static_cast<std::size_t>(levels_above_hosts(topology));
  if (!topology.unknown.empty()) {
    if (levels.size() == needed) levels.push_back(levels.back());
    levels.back().name = kUnknownPlace;
  }
  if (levels.size() != needed + (topology.unknown.empty() ? 0 : 1)) {
    throw InternalError("levels that the topology does not have");
  }
  const std::size_t known = topology.hosts.size();
  const std::size_t hosts = known + topology.unknown.size();

  model::HierarchySpec& spec = cluster.network.emplace<model::HierarchySpec>();
  spec.levels.push_back(node);
  spec.levels.back().fanout = devices_per_host;
  std::vector<std::size_t> inner(hosts, 1);  // blocks of the level below, as hosts in each
  for (std::size_t l = 0; l < levels.size(); ++l) {
    model::NetworkLevel& level = spec.levels.emplace_back(std::move(levels[l]));
    level.fanouts.clear();
    std::vector<std::size_t> blocks;
    const bool whole = l == needed;
    std::size_t host = 0;
    for (const std::size_t size : inner) {
      const bool apart = host >= known;
      const bool first = host == 0;
      const bool same_block =
          l >= topology.levels.size() ||
          (host < known && !first &&
           topology.levels[l].block[host] == topology.levels[l].block[host - 1]);
      if (first || (!whole && (apart || !same_block))) {
        blocks.push_back(0);
        level.fanouts.push_back(0);
      }
      blocks.back() += size;
      ++level.fanouts.back();
      host += size;
    }
    level.fanout = *std::max_element(level.fanouts.begin(), level.fanouts.end());
    if (*std::min_element(level.fanouts.begin(), level.fanouts.end()) == level.fanout) {
      level.fanouts.clear();
    }
    inner = std::move(blocks);
  }
  cluster.hosts.clear();
  for (const std::string& host : topology.hosts)
    cluster.hosts.push_back({host, devices_per_host, {}});
  for (const std::string& host : topology.unknown) {
    cluster.hosts.push_back({host, devices_per_host, {}});
  }
}

}  // namespace nestplan::network
