#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nestplan/solver/snapshot.hpp"
#include "nestplan/solver/team.hpp"
#include "solver/placement.hpp"
#include "solver/stage_pricer.hpp"

namespace nestplan::solver {

/// How stage times combine along a pipeline.
enum class Combine : std::uint8_t {
  kSum,  ///< W_τ: least Σ t with every t ≤ τ, what ties take, and sync of the first stage
  kBottleneck,  ///< least max t
};

/// What cells of a table may be worth keeping. Everything beyond is provably useless to the caller.
struct TableLimits {
  Ticks stage = kNever;  ///< τ: no stage may take longer
  Ticks sum = kNever;    ///< kSum: Σ t of the whole pipeline may not be more
  bool prune = true;     ///< false: keep every cell that the shape of the problem allows
};

/// One step of a pipeline: a stage, and the port of the stage behind it.
struct Transition {
  DownsetId inner = 0;     ///< D'
  int choice = 0;          ///< the strategy's place in the configuration's list
  std::int32_t next = -1;  ///< port in the layer of the remaining stages; -1: last stage
  Ticks received = 0;      ///< ticks for input and gradients
  Ticks tie = 0;           ///< once per iteration, for parameters shared with the first stage
  StageOption option;      ///< what is done about memory
  Ticks time() const { return option.time + received; }
};

/// A pipeline of a table, first stage first, as one of possibly many with its value.
struct Walk {
  std::vector<Transition> stages;
  Total sum = 0;         ///< Σ t + sync_1 + what ties take
  Ticks bottleneck = 0;  ///< max t
};

/// Layers in a row: for each number of stages up to `depth`, the longest suffix that so many stages
/// could hold if none takes longer than `cap`, were every stage at its best position. An upper
/// bound on what any placement reaches: a stage inside another takes no more time and memory, so
/// the longest suffix of `s` stages extends the longest of `s - 1`. The whole graph where layers
/// are not in a row. Time O((layers + depth) · words).
std::vector<DownsetId> longest_suffixes(const Instance& instance, const Placement& placement,
                                        std::int64_t depth, Ticks cap);

/// By downset, the depths from the first to the last at which a table has rows: some pipeline of
/// one of `depths` stages, none of which takes longer than `cap`, has room before and behind it.
/// None where `first > last`, as for the empty and the whole downset.
struct DepthWindows {
  std::vector<std::int32_t> first, last;
};
DepthWindows depth_windows(const Instance& instance, const Placement& placement,
                           const PortLayers& layers, const std::vector<std::int64_t>& depths,
                           Ticks cap);

/// The dynamic program over the lattice of downsets for one configuration.
///
///     T[D][s][q] = min over D' ⊂ D, strategy, next port q' of  t ∘ T[D'][s-1][q'],
///
/// with `t` the time of stage `D \ D'` as the `s`-th from the end at port `q` (its position, and
/// the link class it receives over), `∘` either `+` or `max`, and `T[∅][0] = 0`. A port stands for
/// `(l, x)` of the classic table `T[l][D][x][s]`: the producer is not placed yet, so the class of
/// the link to it is part of the state (Wang et al., "NEST: Network- and Memory-Aware Device
/// Placement for Distributed Deep Learning").
///
/// Filled wave by wave, each downset pushing its finished rows to the downsets above it. A row is
/// the ports of one `(D, s)`; ports that share link and position class are neighbours, so that one
/// stage time serves a whole run of them in a vectorised loop.
///
/// Time O(pairs D' ⊂ D within the limits · strategies · depths · (1 + ports)): from `D'` up, the
/// downsets are walked step by step and only as far as a stage within the limits reaches. Memory
/// 8 bytes a cell, only for `D` that are reached and depths within the limits. The result does not
/// depend on the order of pushes.
///
/// **Across a team** the table is partitioned and no rank holds more than its part. The downsets of
/// each wave go to the shares in turn, the depths are cut into blocks of about as many cells. A
/// wave's finished rows travel in chunks through their stage block: who receives a chunk pushes it
/// to its own downsets above and forgets it. The deepest row of a block is the band that goes on to
/// the next block, which so runs behind it as a wavefront through (wave, block). The next chunk
/// travels while the last is pushed; at the end of a wave, what the next wave needs is pushed
/// first. All calls are collective then, and return the same on every rank.
class Table {
 public:
  Table(const Instance& instance, const Placement& placement, const PortLayers& layers,
        std::vector<std::int64_t> depths, Combine combine, TableLimits limits, Team& team);

  /// Bytes that the fullest rank of the team needs for it, at most.
  double bytes_per_rank() const;
  /// Bytes that one rank alone would need, at most.
  double bytes_alone() const;

  /// Fills the table. Returns false if `stop` (polled now and then, may be empty) said so on any
  /// rank that fills the first block of depths; another call then goes on from there.
  bool fill(const std::function<bool()>& stop);

  /// The first downset whose rows were not pushed to those above it: what there is to know of a
  /// table half filled, besides its cells. The same on every rank.
  DownsetId next() const { return next_; }
  /// Cells that the team may fill, in the order of `pieces`: by downset, depth, port.
  std::int64_t capacity() const { return capacity_; }
  /// The cells of this rank; good until the next call of anything.
  std::vector<Piece> pieces();
  /// Takes up a table of the same shape that was filled up to `next`; `read` gives its cells from
  /// an offset on.
  void restore(DownsetId next,
               const std::function<void(std::int64_t offset, std::span<Ticks> cells)>& read);

  /// Least value of a pipeline with `depth` stages. kSum: Σ t + ties + sync_1. kBottleneck: the
  /// paper's objective (m + p - 1)·max t + sync_1. kNoTotal if there is none within the limits.
  Total best(std::int64_t depth);

  /// kBottleneck: the least max t of a pipeline with `depth` stages; kNever if there is none.
  Ticks least_bottleneck(std::int64_t depth);

  /// A pipeline with the value `best(depth)`.
  Walk walk(std::int64_t depth);

  /// Calls `visit` for every first stage of a pipeline with `depth` stages, all options, whose rest
  /// this rank holds. Not collective, nor is `stages`.
  void first_stages(std::int64_t depth, const std::function<void(const Transition&)>& visit);

  /// Calls `visit` for every stage `outer \ inner` that can be `s`-th from the end at port `q`,
  /// within the limits; all options, or only the fastest.
  void stages(DownsetId outer, std::int64_t s, std::int32_t q, bool all_options,
              const std::function<void(const Transition&)>& visit);

  /// Value behind a transition out of the stage that is `s`-th from the end.
  Ticks rest(const Transition& transition, std::int64_t s) const;

  /// Cells that this rank holds.
  std::int64_t cells() const { return cells_; }
  std::int64_t relaxations() const { return relaxations_; }

 private:
  /// Downsets of one wave whose rows travel together.
  struct Chunk {
    DownsetId begin = 0;
    DownsetId end = 0;
  };
  struct Flight;

  /// What the rows of one depth offer to a flow of stages before them.
  struct Offers {
    struct Live {
      std::int32_t begin = 0, end = 0;
      Ticks least = 0;
    };
    struct Class {
      std::int32_t link = 0, position_class = 0;
      std::size_t first = 0, last = 0;  ///< of `segments`
    };
    std::vector<Ticks> values;  ///< by port
    std::vector<Class> classes;
    std::vector<Live> segments;

    void find_live(const Flow& flow);
  };

  bool worth(DownsetId d, std::int64_t s) const {
    return first_row_[at(d)] <= s && s <= last_row_[at(d)];
  }
  void find_worth();
  void cut_blocks();
  int share_of(DownsetId d) const;
  void make_room();
  bool own(DownsetId d) const { return share_of(d) == team_.downset_share(); }
  std::int64_t cells_of(DownsetId d, std::int64_t first, std::int64_t last) const;
  std::int64_t own_cells(DownsetId d) const { return cells_of(d, first_depth_, last_depth_); }
  std::int64_t in_flight(std::int64_t s) const;
  /// First and last position at which a stage that starts downset `d` leaves enough devices before
  /// and behind it for what has to be done there within the limits.
  std::pair<std::int64_t, std::int64_t> starts(DownsetId d) const;
  /// Drops what is beyond the limits from this rank's rows of `inner`, which are finished, and all
  /// of them if nothing is left.
  void trim(DownsetId inner);
  /// This rank's row of `(d, s)`, which there must be; made if it is not there yet.
  Ticks* grow(DownsetId d, std::int64_t s);
  bool prepare(DownsetId inner);
  bool push(DownsetId inner, DownsetId outer);
  void push_row(DownsetId inner, DownsetId outer, std::int64_t s, int choice);
  void relax_tied(DownsetId inner, DownsetId outer, const PortLayer& layer, int choice,
                  const Ticks* offers, Ticks time, std::int32_t begin, std::int32_t end,
                  Ticks* values) const;
  Ticks tie(DownsetId outer, DownsetId inner, int choice, std::int32_t position) const;
  std::pair<std::int32_t, std::int32_t> within(const PortLayer& layer, DownsetId outer,
                                               std::int32_t begin, std::int32_t end) const;
  void push_to(DownsetId inner, DownsetId first, DownsetId last);
  bool fill_alone(const std::function<bool()>& stop);
  bool fill_shared(const std::function<bool()>& stop);
  std::vector<Chunk> chunks() const;
  std::unique_ptr<Flight> launch(Chunk chunk, bool stop);
  bool land(Flight& flight);
  void push_chunk(const Flight& flight, DownsetId first, DownsetId last);
  /// This rank's row of `(d, s)`; null if it is another's or was never reached.
  const Ticks* row(DownsetId d, std::int64_t s) const;

  /// A stage that some rank could put next, with its value and what is behind it.
  struct Offer {
    Total value = kNoTotal;
    Ticks rest = 0;
    Transition transition;
  };
  std::optional<Offer> agree(const std::optional<Offer>& mine);
  Total objective(std::int64_t depth, const Transition& first) const;
  void expand(DownsetId outer, std::int64_t s, std::int32_t position, std::int32_t link,
              bool all_options, const std::function<void(const Transition&)>& visit);

  const Instance& instance_;
  const Placement& placement_;
  const PortLayers& layers_;
  const Configuration& configuration_;
  std::vector<std::int64_t> depths_;
  Combine combine_;
  TableLimits limits_;
  int levels_;
  Team& team_;
  std::int64_t stages_;                             ///< deepest table row: max depth - 1
  std::vector<std::int32_t> first_row_, last_row_;  ///< by D: depths that anybody has rows of
  std::vector<std::int64_t> ports_before_;          ///< by s: ports of all depths below
  std::int64_t capacity_ = 0;
  std::vector<std::int64_t> blocks_;  ///< first depth of every stage block, and one past the last
  std::vector<double> cells_in_;      ///< by stage block, share
  std::int64_t first_depth_ = 1;      ///< of this rank's block
  std::int64_t last_depth_ = 0;
  std::vector<std::unique_ptr<Ticks[]>> rows_;  ///< by place of D among this rank's: once reached
  std::vector<Ticks> never_;                    ///< what rows that were not reached hold
  std::int64_t cells_ = 0;
  DownsetId next_ = 0;
  std::vector<const Ticks*> source_;         ///< by s: finished rows of the downset being pushed
  std::vector<StagePricer> pricer_;          ///< by choice
  std::vector<const std::int32_t*> cut_of_;  ///< by choice: kind of D's cut
  std::vector<std::vector<const Ticks*>> receive_;           ///< by choice, link: per kind
  std::vector<std::vector<const Ticks*>> receive_gradient_;  ///< by choice, level: per kind
  std::vector<std::vector<Offers>> onward_;                  ///< by s, flow
  std::vector<std::int32_t> earliest_, latest_;              ///< by D: see `starts`
  std::vector<std::int64_t> live_;   ///< depths s' at which `inner` has values
  std::vector<Ticks> class_time_;    ///< by class: of the stage being pushed
  bool ties_count_ = false;          ///< whether ties are part of the objective
  bool tied_ = false;                ///< whether the stage being pushed takes time for ties
  std::vector<std::uint32_t> seen_;  ///< by D: the last walk that came to it
  std::uint32_t walk_ = 0;
  std::vector<DownsetId> frontier_;                                             ///< of the walk
  std::deque<std::pair<std::vector<double>, std::unique_ptr<Pending>>> bands_;  ///< being sent
  std::int64_t pushes_ = 0;
  std::int64_t polled_ = 0;  ///< pushes when the clock was last looked at
  std::int64_t relaxations_ = 0;
};

}  // namespace nestplan::solver
