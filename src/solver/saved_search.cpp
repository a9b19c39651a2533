#include "solver/saved_search.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <type_traits>

#include "nestplan/util/errors.hpp"

namespace nestplan::solver {
namespace {

/// What is a number in files and messages.
template <typename Name>
concept StoredAsNumber = std::is_enum_v<Name> || std::is_same_v<Name, bool>;

constexpr int kHalf = 64;

std::int64_t high(Total total) { return static_cast<std::int64_t>(total >> kHalf); }
std::int64_t low(Total total) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(total));
}
Total joined(std::int64_t high_half, std::int64_t low_half) {
  return static_cast<Total>(high_half) * (static_cast<Total>(1) << kHalf) +
         static_cast<Total>(static_cast<std::uint64_t>(low_half));
}

/// Values that are put one after the other, and taken in the same order.
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(std::span<const std::byte> bytes)
      : values_(bytes.size() / sizeof(std::int64_t)) {
    if (!bytes.empty()) std::memcpy(values_.data(), bytes.data(), bytes.size());
  }

  void put(std::int64_t value) { values_.push_back(value); }
  void put(Ticks value) { values_.push_back(std::bit_cast<std::int64_t>(value)); }
  void put(Total value) {
    put(high(value));
    put(low(value));
  }
  void put(const std::string& text) {
    put(static_cast<std::int64_t>(text.size()));
    for (const char c : text) put(static_cast<std::int64_t>(c));
  }
  template <StoredAsNumber Name>
  void put(Name name) {
    put(static_cast<std::int64_t>(name));
  }
  void put(const TableLimits& limits) {
    put(limits.stage);
    put(limits.sum);
  }
  template <typename First, typename Second>
  void put(const std::pair<First, Second>& pair) {
    put(pair.first);
    put(pair.second);
  }
  template <typename Item>
  void put(const std::vector<Item>& items) {
    put(static_cast<std::int64_t>(items.size()));
    for (const Item& item : items) put(item);
  }

  std::int64_t number() { return values_.at(next_++); }
  Ticks ticks() { return std::bit_cast<Ticks>(number()); }
  Total total() {
    const std::int64_t high_half = number();
    return joined(high_half, number());
  }
  std::string text() {
    std::string result(at(number()), '\0');
    for (char& c : result) c = static_cast<char>(number());
    return result;
  }

  void take(std::int64_t& value) { value = number(); }
  void take(Ticks& value) { value = ticks(); }
  void take(Total& value) { value = total(); }
  template <StoredAsNumber Name>
  void take(Name& name) {
    name = static_cast<Name>(number());
  }
  void take(TableLimits& limits) {
    take(limits.stage);
    take(limits.sum);
  }
  template <typename First, typename Second>
  void take(std::pair<First, Second>& pair) {
    take(pair.first);
    take(pair.second);
  }
  template <typename Item>
  void take(std::vector<Item>& items) {
    items.resize(at(number()));
    for (Item& item : items) take(item);
  }

  std::vector<std::byte> bytes() const {
    const auto view = std::as_bytes(std::span(values_));
    return {view.begin(), view.end()};
  }

 private:
  std::vector<std::int64_t> values_;
  std::size_t next_ = 0;
};

void put(Numbers& out, const Candidate& candidate) {
  out.put(candidate.total);
  for (const std::int64_t part : {candidate.key.micro_batch, candidate.key.dp,
                                  candidate.key.dp_inner, candidate.key.depth, candidate.key.vpp}) {
    out.put(part);
  }
  out.put(candidate.configuration);
  out.put(candidate.cap);
}

Candidate candidate(Numbers& in) {
  Candidate result;
  result.total = in.total();
  result.key = {in.number(), in.number(), in.number(), in.number(), in.number()};
  result.configuration = in.number();
  result.cap = in.ticks();
  return result;
}

void put(Numbers& out, const BoardEntry& entry) {
  out.put(entry.bound);
  out.put(entry.index);
  out.put(entry.bounded);
  out.put(entry.saved);
}

BoardEntry board_entry(Numbers& in) {
  BoardEntry entry;
  entry.bound = in.total();
  entry.index = in.number();
  entry.bounded = in.number();
  entry.saved = in.number();
  return entry;
}

/// Shows every field of a saved visit to `see(name, field)`. Checkpoints have the names, messages
/// the order.
template <typename Visit, typename See>
void see_fields(Visit& visit, See&& see) {
  auto& state = visit.state;
  auto& request = state.request;
  see("bound", visit.bound);
  see("configuration", visit.configuration);
  see("step", state.step);
  see("combine", request.combine);
  see("prune", request.limits.prune);
  see("next_downset", visit.next);
  see("capacity", visit.capacity);
  see("seed_depths", state.depths);
  see("seed_factor", state.factor);
  see("refined", state.refined);
  see("sum", state.sum);
  see("slowest_ticks", state.slowest);
  see("limits_ticks", request.limits);
  see("depths", request.depths);
  see("promising", state.promising);
}

/// Columns of a table in a snapshot: a column of totals is two of numbers.
template <typename Items, typename Of>
void write_numbers(SnapshotWriter& out, const std::string& name, const Items& items, Of of) {
  std::vector<std::int64_t> column;
  for (const auto& item : items) column.push_back(of(item));
  out.integers(name, column);
}

template <typename Items, typename Of>
void write_totals(SnapshotWriter& out, const std::string& name, const Items& items, Of of) {
  write_numbers(out, name + "_high", items, [&](const auto& item) { return high(of(item)); });
  write_numbers(out, name + "_low", items, [&](const auto& item) { return low(of(item)); });
}

/// A column, which has as many entries as the first one that was read of its table.
class Columns {
 public:
  Columns(const SnapshotReader& in, std::string table) : in_(in), table_(std::move(table)) {}

  std::vector<std::int64_t> numbers(const std::string& name) {
    return checked(name, in_.integers(table_ + "/" + name));
  }
  std::vector<double> reals(const std::string& name) {
    return checked(name, in_.reals(table_ + "/" + name));
  }
  std::vector<Total> totals(const std::string& name) {
    const auto high_half = numbers(name + "_high");
    const auto low_half = numbers(name + "_low");
    std::vector<Total> result;
    for (std::size_t i = 0; i < high_half.size(); ++i) {
      result.push_back(joined(high_half[i], low_half[i]));
    }
    return result;
  }
  std::size_t rows() const { return rows_.value_or(0); }

 private:
  template <typename T>
  std::vector<T> checked(const std::string& name, std::vector<T> column) {
    if (rows_.value_or(column.size()) != column.size()) {
      throw InvalidInput(
          fmt::format("{}/{} has {} entries instead of {}", table_, name, column.size(), *rows_));
    }
    rows_ = column.size();
    return column;
  }

  const SnapshotReader& in_;
  std::string table_;
  std::optional<std::size_t> rows_;
};

std::string visit_name(std::size_t i) { return fmt::format("visits/{}", i); }

/// Writes fields of a visit to a checkpoint.
class FieldWriter {
 public:
  FieldWriter(SnapshotWriter& out, std::string visit) : out_(out), visit_(std::move(visit)) {}

  void operator()(const char* name, std::int64_t value) const {
    out_.integers(path(name), std::span(&value, 1));
  }
  template <StoredAsNumber Name>
  void operator()(const char* name, Name value) const {
    (*this)(name, static_cast<std::int64_t>(value));
  }
  void operator()(const char* name, Ticks value) const {
    out_.reals(path(name), std::span(&value, 1));
  }
  void operator()(const char* name, Total value) const {
    write_totals(out_, path(name), std::span(&value, 1), [](Total total) { return total; });
  }
  void operator()(const char* name, const TableLimits& limits) const {
    out_.reals(path(name), std::array{limits.stage, limits.sum});
  }
  void operator()(const char* name, const std::vector<std::int64_t>& values) const {
    out_.integers(path(name), values);
  }
  void operator()(const char* name, const std::vector<std::pair<Total, std::int64_t>>& all) const {
    write_totals(out_, path(name) + "/total", all, [](const auto& pair) { return pair.first; });
    write_numbers(out_, path(name) + "/depth", all, [](const auto& pair) { return pair.second; });
  }

 private:
  std::string path(const char* name) const { return visit_ + '/' + name; }

  SnapshotWriter& out_;
  std::string visit_;
};

/// Reads them back.
class FieldReader {
 public:
  FieldReader(const SnapshotReader& in, const std::string& visit)
      : in_(in), visit_(visit), one_(in, visit) {}

  void operator()(const char* name, std::int64_t& value) { value = one_.numbers(name).at(0); }
  template <StoredAsNumber Name>
  void operator()(const char* name, Name& value) {
    value = static_cast<Name>(one_.numbers(name).at(0));
  }
  void operator()(const char* name, Ticks& value) { value = one_.reals(name).at(0); }
  void operator()(const char* name, Total& value) { value = one_.totals(name).at(0); }
  void operator()(const char* name, TableLimits& limits) {
    const std::vector<double> both = in_.reals(path(name));
    limits.stage = both.at(0);
    limits.sum = both.at(1);
  }
  void operator()(const char* name, std::vector<std::int64_t>& values) {
    values = in_.integers(path(name));
  }
  void operator()(const char* name, std::vector<std::pair<Total, std::int64_t>>& all) {
    Columns columns(in_, path(name));
    const std::vector<Total> totals = columns.totals("total");
    const std::vector<std::int64_t> depths = columns.numbers("depth");
    for (std::size_t i = 0; i < columns.rows(); ++i) all.emplace_back(totals[i], depths[i]);
  }

 private:
  std::string path(const char* name) const { return visit_ + '/' + name; }

  const SnapshotReader& in_;
  std::string visit_;
  Columns one_;
};

}  // namespace

std::string SavedSearch::cells_name(std::size_t i) { return visit_name(i) + "/cells"; }

void SavedSearch::write(SnapshotWriter& out) const {
  const auto number = [&](const char* name, std::int64_t value) {
    out.integers(name, std::span(&value, 1));
  };
  number("search/rung", rung);
  number("search/rungs", rungs);
  number("search/attempt", attempt);
  number("search/configurations", listed);
  number("search/downsets", downsets);
  number("search/visits", static_cast<std::int64_t>(visits.size()));
  number("search/visited", visited);
  number("search/tables", tables);
  number("search/relaxations", relaxations);
  out.reals("search/horizon_s", std::span(&horizon_s, 1));
  out.reals("search/spent_s", std::span(&spent_s, 1));
  out.reals("search/best_s", std::span(&best_s, 1));
  out.reals("search/lower_bound_s", std::span(&lower_bound_s, 1));
  write_totals(out, "search/known/total", std::vector<Total>{known}, [](Total t) { return t; });
  out.integers("search/known/plan", known_plan);
  using C = Candidate;
  write_totals(out, "search/best/total", best, [](const C& c) { return c.total; });
  write_numbers(out, "search/best/micro_batch", best, [](const C& c) { return c.key.micro_batch; });
  write_numbers(out, "search/best/dp", best, [](const C& c) { return c.key.dp; });
  write_numbers(out, "search/best/dp_inner", best, [](const C& c) { return c.key.dp_inner; });
  write_numbers(out, "search/best/depth", best, [](const C& c) { return c.key.depth; });
  write_numbers(out, "search/best/vpp", best, [](const C& c) { return c.key.vpp; });
  write_numbers(out, "search/best/configuration", best, [](const C& c) { return c.configuration; });
  std::vector<double> caps;
  for (const C& c : best) caps.push_back(c.cap);
  out.reals("search/best/cap_ticks", caps);
  using E = BoardEntry;
  write_totals(out, "search/waiting/bound", waiting, [](const E& e) { return e.bound; });
  write_numbers(out, "search/waiting/configuration", waiting, [](const E& e) { return e.index; });
  write_numbers(out, "search/waiting/bounded", waiting, [](const E& e) { return e.bounded; });
  write_numbers(out, "search/rejected/count", rejected, [](const auto& r) { return r.second; });
  std::string reasons;
  for (const auto& [reason, count] : rejected) reasons += reason + "\n";
  out.text("search/rejected/reasons", reasons);
  for (std::size_t i = 0; i < visits.size(); ++i)
    see_fields(visits[i], FieldWriter(out, visit_name(i)));
}

SavedSearch SavedSearch::read(const SnapshotReader& in) {
  SavedSearch search;
  const auto number = [&](const char* name) { return in.integers(name).at(0); };
  search.rung = number("search/rung");
  search.rungs = number("search/rungs");
  search.attempt = number("search/attempt");
  search.listed = number("search/configurations");
  search.downsets = number("search/downsets");
  search.visited = number("search/visited");
  search.tables = number("search/tables");
  search.relaxations = number("search/relaxations");
  search.horizon_s = in.reals("search/horizon_s").at(0);
  search.spent_s = in.reals("search/spent_s").at(0);
  search.best_s = in.reals("search/best_s").at(0);
  search.lower_bound_s = in.reals("search/lower_bound_s").at(0);
  search.known = Columns(in, "search/known").totals("total").at(0);
  search.known_plan = in.integers("search/known/plan");
  Columns best(in, "search/best");
  const auto totals = best.totals("total");
  const auto micro_batch = best.numbers("micro_batch");
  const auto dp = best.numbers("dp");
  const auto dp_inner = best.numbers("dp_inner");
  const auto depth = best.numbers("depth");
  const auto vpp = best.numbers("vpp");
  const auto configuration = best.numbers("configuration");
  const auto caps = best.reals("cap_ticks");
  for (std::size_t i = 0; i < best.rows(); ++i) {
    search.best.push_back({totals[i],
                           {micro_batch[i], dp[i], dp_inner[i], depth[i], vpp[i]},
                           configuration[i],
                           caps[i]});
  }
  Columns waiting(in, "search/waiting");
  const auto bounds = waiting.totals("bound");
  const auto indices = waiting.numbers("configuration");
  const auto bounded = waiting.numbers("bounded");
  for (std::size_t i = 0; i < waiting.rows(); ++i) {
    search.waiting.push_back({bounds[i], indices[i], bounded[i], -1});
  }
  const auto rejected = in.integers("search/rejected/count");
  const std::string reasons = in.text("search/rejected/reasons");
  std::size_t begin = 0;
  for (const std::int64_t count : rejected) {
    const std::size_t end = std::min(reasons.find('\n', begin), reasons.size());
    search.rejected.emplace_back(reasons.substr(begin, end - begin), count);
    begin = std::min(end + 1, reasons.size());
  }
  for (std::size_t i = 0; i < at(number("search/visits")); ++i) {
    see_fields(search.visits.emplace_back(), FieldReader(in, visit_name(i)));
  }
  return search;
}

void gather(const std::vector<GroupState>& groups, const SavedSearch* earlier, SavedSearch& search,
            std::vector<std::int64_t>& earlier_visit) {
  std::map<std::string, std::int64_t> rejected;
  for (const GroupState& group : groups) {
    search.visited += group.visited;
    search.tables += group.tables;
    for (const auto& [reason, count] : group.rejected) rejected[reason] += count;
    for (const Candidate& candidate : group.best) {
      if (!search.best.empty()) {
        const Candidate& first = search.best.front();
        if (std::pair(candidate.total, candidate.key) > std::pair(first.total, first.key)) continue;
        if (std::pair(candidate.total, candidate.key) < std::pair(first.total, first.key)) {
          search.best.clear();
        }
      }
      search.best.push_back(candidate);
    }
    if (group.visit) {
      search.visits.push_back(*group.visit);
      earlier_visit.push_back(-1);
    }
  }
  for (const GroupState& group : groups) {
    for (const BoardEntry& entry : group.waiting) {
      if (entry.saved < 0) {
        search.waiting.push_back(entry);
      } else {
        search.visits.push_back(earlier->visits[at(entry.saved)]);
        earlier_visit.push_back(entry.saved);
      }
    }
  }
  search.rejected.assign(rejected.begin(), rejected.end());
}

std::vector<std::byte> to_bytes(const GroupState& state) {
  Numbers out;
  out.put(static_cast<std::int64_t>(state.best.size()));
  for (const Candidate& candidate : state.best) put(out, candidate);
  out.put(static_cast<std::int64_t>(state.waiting.size()));
  for (const BoardEntry& entry : state.waiting) put(out, entry);
  out.put(static_cast<std::int64_t>(state.visit ? 1 : 0));
  if (state.visit) {
    see_fields(*state.visit, [&](const char*, const auto& field) { out.put(field); });
  }
  out.put(state.visited);
  out.put(state.tables);
  out.put(static_cast<std::int64_t>(state.rejected.size()));
  for (const auto& [reason, count] : state.rejected) {
    out.put(reason);
    out.put(count);
  }
  return out.bytes();
}

GroupState to_group_state(std::span<const std::byte> bytes) {
  Numbers in(bytes);
  GroupState state;
  state.best.resize(at(in.number()));
  for (Candidate& entry : state.best) entry = candidate(in);
  state.waiting.resize(at(in.number()));
  for (BoardEntry& entry : state.waiting) entry = board_entry(in);
  if (in.number() != 0) {
    see_fields(state.visit.emplace(), [&](const char*, auto& field) { in.take(field); });
  }
  state.visited = in.number();
  state.tables = in.number();
  state.rejected.resize(at(in.number()));
  for (auto& [reason, count] : state.rejected) {
    reason = in.text();
    count = in.number();
  }
  return state;
}

std::vector<std::int64_t> to_numbers(const cost::PlacedPlan& plan) {
  std::vector<std::int64_t> numbers{plan.dp, plan.dp_inner,
                                    static_cast<std::int64_t>(plan.stages.size())};
  for (const cost::PlacedStage& stage : plan.stages) {
    numbers.insert(
        numbers.end(),
        {stage.strategy, stage.position, static_cast<std::int64_t>(stage.recompute), stage.zero,
         static_cast<std::int64_t>(stage.shard), static_cast<std::int64_t>(stage.layers.size())});
    numbers.insert(numbers.end(), stage.layers.begin(), stage.layers.end());
    numbers.push_back(static_cast<std::int64_t>(stage.chunks.size()));
    for (const std::vector<int>& chunk : stage.chunks) {
      numbers.push_back(static_cast<std::int64_t>(chunk.size()));
      numbers.insert(numbers.end(), chunk.begin(), chunk.end());
    }
  }
  return numbers;
}

cost::PlacedPlan to_placed_plan(std::span<const std::int64_t> numbers) {
  std::size_t next = 0;
  const auto take = [&] {
    if (next == numbers.size()) throw InvalidInput("a saved plan is cut short");
    return numbers[next++];
  };
  const auto take_layers = [&] {
    std::vector<int> layers;
    for (std::int64_t left = take(); left > 0; --left) layers.push_back(static_cast<int>(take()));
    return layers;
  };
  cost::PlacedPlan plan;
  plan.dp = take();
  plan.dp_inner = take();
  const std::int64_t stages = take();
  for (std::int64_t i = 0; i < stages; ++i) {
    cost::PlacedStage stage;
    stage.strategy = static_cast<int>(take());
    stage.position = take();
    stage.recompute = static_cast<model::Recompute>(take());
    stage.zero = static_cast<int>(take());
    stage.shard = static_cast<model::ShardSpan>(take());
    stage.layers = take_layers();
    for (std::int64_t left = take(); left > 0; --left) stage.chunks.push_back(take_layers());
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace nestplan::solver
