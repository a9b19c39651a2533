#pragma once

#include <iosfwd>
#include <vector>

#include "nestplan/solver/team.hpp"
#include "solver/visit.hpp"

namespace nestplan::distributed {

/// A model of how long the ranks of a team take to fill a table (`solver::Table`), and how long
/// groups of them take to work through many configurations.
///
/// **Work.** A wave is the downsets of equal cardinality. Of every wave, with `D` downset shares
/// and `S` blocks of depths, a rank of block `b` does
///
///     redundant(w, b) = walked(w)·step + prepared(w, b)·prepare               (whatever D is)
///     shared(w, b)    = priced(w)·price + segments(w, b)·segment + relaxed(w, b)·cell,  over D
///
/// since every rank walks the lattice above every downset and prepares its rows, but prices and
/// pushes only to its own. A block that has nothing to push from a wave skips it. Shares are dealt
/// whole downsets, so `n` targets take `⌈n/D⌉·D/n` times as long as an even split would.
///
/// **Messages** cost by LogGP: a message of `k` bytes takes `L + 2o + (k-1)·G` (Culler et al.,
/// "LogP: Towards a Realistic Model of Parallel Computation", 1993; Alexandrov et al., "LogGP:
/// Incorporating Long Messages into the LogP Model", 1995). The rows of a wave, 8 bytes a cell,
/// travel in `c` chunks of `B` bytes in all; who has them all has received `B·(D-1)/D`, from `D-1`
/// others, and sent as many messages (a linear gather):
///
///     gather(w, b) = c·(L + 2·(D-1)·o) + B·(D-1)/D·G
///
/// A band is one row of every downset of a chunk: `c·(L + 2o) + 8·cells(w, last depth of b)·G` to
/// the next block. If the ranks of a team do not share a node, all ranks of a node share its link:
/// `G` grows by their number.
///
/// **Time** follows the wavefront through (wave, block). What the next wave needs is pushed first
/// (`near`), then its rows are gathered while the rest is pushed:
///
///     begin(w, b)    = max(end(w-1, b), gathered(w, b), begin(w, b-1) + band(w, b-1))
///     end(w, b)      = begin(w, b) + redundant + shared
///     gathered(w, b) = begin(w-1, b) + redundant(w-1, b) + near·shared(w-1, b) + gather(w, b)
///
/// and the answer is the largest end. More ranks than cores take turns: all work takes
/// `ranks/cores` times as long.
///
/// **Memory** of a rank: 8 bytes a cell of its share, six times the largest chunk (two under way,
/// as what is sent, received and handed on), and 20 bytes a downset.
struct LogGP {
  double latency_s = 0;       ///< L
  double overhead_s = 0;      ///< o, of sending or receiving one message
  double gap_s_per_byte = 0;  ///< G
};

/// What a machine takes for the steps of the model.
struct Machine {
  double cell_s = 0;           ///< a relaxed cell
  double segment_s = 0;        ///< a run of cells that one stage time serves, besides its cells
  double price_s = 0;          ///< a stage priced under one strategy
  double step_s = 0;           ///< a downset met on a walk
  double prepared_cell_s = 0;  ///< a cell moved to where the stages before it look for it
  double configuration_s = 0;  ///< a configuration listed and bounded
  LogGP within, between;       ///< ranks of one node, of different ones
  int ranks_per_node = 1;
  int cores = 0;  ///< for all ranks together; 0: one for each
};

/// Measured (`tests/bench/scaling_model.cpp`) on a virtual machine with two cores of an AMD EPYC
/// 9004 at 2.6 GHz and Open MPI 4.1; `between` nodes as `assumed_cluster` has it.
Machine measured_machine();

/// The same cores, 64 to a node. *An assumption, not a measurement*: nodes are joined by 25 GB/s
/// and 1.5 us, and a message costs 0.5 us to send and to receive.
Machine assumed_cluster();

/// Reads what `write` wrote: a line "name value" each. Throws InvalidInput for anything else.
Machine read_machine(std::istream& in);
void write(std::ostream& out, const Machine& machine);

/// What is to be done for the downsets of one cardinality. Vectors are by depth, from 0.
struct Wave {
  double downsets = 0;           ///< that have rows
  double targets = 0;            ///< downsets that something may be pushed to
  double walked = 0;             ///< downsets met on the way up
  double priced = 0;             ///< stages, times strategies
  double near = 0;               ///< share of these that ends in the next wave
  std::vector<double> cells;     ///< of their rows
  std::vector<double> prepared;  ///< cells, by the depth of the stage before
  std::vector<double> segments;  ///< runs of cells relaxed, by the depth of the row relaxed
  std::vector<double> relaxed;   ///< cells relaxed, likewise
};

/// What is to be done for a table.
struct TableSummary {
  std::vector<Wave> waves;  ///< by cardinality, the empty set first
  double downsets = 0;      ///< of the lattice
  std::int64_t depths = 0;  ///< rows a downset has at most

  double cells() const;
  double relaxed() const;
  /// Scales what is relaxed, when a part of it is known to find nothing alive.
  void scale_pushes(double factor);
};

/// Counts the work of a table, walking up from about `walks` downsets and taking them for all of
/// their waves; exact in its walks if there are no more downsets. What depends on values is not
/// known: every position that devices and floors leave open counts as alive, and every stage within
/// the floor's time as possible. So it counts too much by a factor that is alike for tables of one
/// model (`tests/distributed/performance_test.cpp` holds it to a range).
TableSummary summarise(const solver::Instance& instance, const solver::Placement& placement,
                       const solver::PortLayers& layers, const std::vector<std::int64_t>& depths,
                       const solver::TableLimits& limits, std::int64_t walks);

/// A prediction and its parts: `seconds` is the sum of them.
struct Prediction {
  double seconds = 0;
  double work_s = 0;           ///< shared work, split evenly over all ranks
  double redundant_s = 0;      ///< walks and preparation of the block that ends last
  double gather_s = 0;         ///< messages that nothing hid
  double uneven_s = 0;         ///< shares and blocks of unequal size, and the wavefront filling up
  double bytes = 0;            ///< of the fullest rank
  double bytes_under_way = 0;  ///< of these, what is there for messages and for every downset
  double messages = 0;         ///< that a rank sends
  double gathered_bytes = 0;   ///< that a rank receives in gathers
  double band_bytes = 0;       ///< that a rank sends to the next block
};

/// Of filling a table on one team.
Prediction predict(const TableSummary& table, solver::Grid grid, const Machine& machine);

/// Many configurations, shared out by a board.
struct SweepSummary {
  double configurations = 0;  ///< that are bounded
  double visits = 0;          ///< of them, those that are looked into
  double visit_s = 0;         ///< of one on average, by one rank
  double longest_visit_s = 0;
  double serial_s = 0;  ///< what every rank does first: costs, sums, the list
  double look_s = 0;    ///< between two looks of the first group at the board
};

/// Of a sweep by `groups` groups of one rank. Every visit takes an exchange with the board, and so
/// does bounding 32 configurations; each is `e` seconds of work on average. The rank that keeps the
/// board works as well and looks at requests every `look`, the others wait for it,
///
///     wait = 2·(L + 2o) + look/2
///     done = exchanges/(1/e + (groups - 1)/(e + wait))
///     serial + max(done + longest/2, exchanges·3o)
///
/// since the last visit ends half of the longest after the others on average, and the board takes
/// `3o` for a request: it receives, answers, and looks.
Prediction predict_sweep(const SweepSummary& sweep, int groups, const Machine& machine);

}  // namespace nestplan::distributed
