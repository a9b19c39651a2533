#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace nestplan::solver {

/// How the ranks of a team split one table: `downsets` ranks share the downsets of every wave, and
/// as many times `stages` blocks share the depths. Rank `r` has downsets share `r % downsets` and
/// stage block `r / downsets`.
struct Grid {
  int downsets = 1;
  int stages = 1;
  int size() const { return downsets * stages; }
};

/// Something under way. Not finished until `wait` returned or `test` said true; the buffers given
/// to it must stay until then.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual bool test() = 0;
  virtual void wait() = 0;
};

/// The ranks that fill one table together. Every call is collective over the team unless it says
/// otherwise, and every rank takes the same decisions from what it returns. The solver knows ranks
/// by this interface only; `SoloTeam` is the team of one.
class Team {
 public:
  virtual ~Team() = default;

  virtual Grid grid() const = 0;
  virtual int rank() const = 0;
  int size() const { return grid().size(); }
  int downset_share() const { return rank() % grid().downsets; }
  int stage_block() const { return rank() / grid().downsets; }

  /// Everybody's bytes, by rank.
  virtual std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) = 0;

  /// Rank 0's bytes for everybody.
  virtual void broadcast(std::span<std::byte> data) = 0;

  /// Starts to collect rows from the ranks of this stage block: `counts[d]` doubles from share `d`,
  /// side by side in `all`.
  virtual std::unique_ptr<Pending> gather_rows(std::span<const double> mine,
                                               std::span<const int> counts, double* all) = 0;

  /// Starts to send a band to the same share of the next stage block, or to receive one from the
  /// previous block. Not collective; bands arrive in the order in which they were sent.
  virtual std::unique_ptr<Pending> send_band(std::span<const double> band) = 0;
  virtual std::unique_ptr<Pending> receive_band(std::span<double> band) = 0;

  /// Called now and then while working, so that what is under way moves on. Not collective.
  virtual void progress() {}

  template <typename T>
  std::vector<std::vector<T>> all_gather_items(const std::vector<T>& mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::vector<T>> result;
    for (const auto& bytes : all_gather(std::as_bytes(std::span(mine)))) {
      auto& items = result.emplace_back(bytes.size() / sizeof(T));
      if (!bytes.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
    }
    return result;
  }
};

/// One rank on its own.
class SoloTeam final : public Team {
 public:
  Grid grid() const override { return {}; }
  int rank() const override { return 0; }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return {{mine.begin(), mine.end()}};
  }
  void broadcast(std::span<std::byte>) override {}
  std::unique_ptr<Pending> gather_rows(std::span<const double>, std::span<const int>,
                                       double*) override {
    return nullptr;
  }
  std::unique_ptr<Pending> send_band(std::span<const double>) override { return nullptr; }
  std::unique_ptr<Pending> receive_band(std::span<double>) override { return nullptr; }
};

}  // namespace nestplan::solver
