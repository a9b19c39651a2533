#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/cost/profile.hpp"
#include "nestplan/model/graph.hpp"

namespace nestplan::cost {

/// An operator of a draft.
struct Op {
  int id = 0;     ///< in the order of their creation
  int layer = 0;  ///< the layer of the graph that it belongs to
};

/// What an operator puts out for others to read: bytes per device and micro-batch.
struct Tensor {
  Op producer;
  double bytes = 0;
};

/// A model under one strategy, written down operator by operator and kept at a granularity: what is
/// charged to an operator goes to the layer that it belongs to, in the order in which it comes.
class Draft {
 public:
  struct Layer {
    std::string id;
    model::LayerCost cost;
    double dropped_bytes = 0;  ///< of the activations, with selective recomputation
    bool counted = false;      ///< see model::Layer
  };
  struct Edge {
    int from = 0;
    int to = 0;
    double bytes = 0;
  };
  struct Tie {
    std::set<int> layers;
    double parameters = 0;
  };

  /// At `granularity`, but for the parts (what is before the first dot of a layer) in `of_part`.
  explicit Draft(Granularity granularity, std::map<std::string, Granularity> of_part = {})
      : granularity_(granularity), of_part_(std::move(of_part)) {}

  /// The operator `name` in `block` of `layer`; an empty block means that the layer is not divided
  /// into any, an empty name that it is a single operator. Layers appear in the order of their
  /// first operators.
  Op add(const std::string& layer, const std::string& block, const std::string& name);

  model::LayerCost& cost(Op op) { return layers_[static_cast<std::size_t>(op.layer)].cost; }

  /// `to` reads `tensor`. Inside a layer that is no edge.
  void connect(const Tensor& tensor, Op to);

  /// `bytes` are among the activations of `op`, but selective recomputation drops them.
  void keep_unless_selective(Op op, double bytes);

  /// `parameters` of `op` are those of the table `name`, which all that name it share.
  void share(const std::string& name, Op op, double parameters);

  /// The layer at `index` is one that rules on the number of layers count.
  void count_layer(std::size_t index) { layers_[index].counted = true; }

  const std::vector<Layer>& layers() const { return layers_; }

  /// By (from, to). A tensor that several operators of one layer read crosses once, at the largest
  /// size that one of them takes; different tensors add up.
  std::vector<Edge> edges() const;

  /// Tables that several layers hold, by name.
  std::vector<Tie> ties() const;

  /// Adds to every layer's checkpoint the bytes of its incoming edges, and works out what selective
  /// recomputation keeps.
  void finish();

 private:
  Granularity granularity_;
  std::map<std::string, Granularity> of_part_;
  std::vector<Layer> layers_;
  std::map<std::string, int> index_;
  std::map<std::pair<int, int>, std::map<int, double>> tensors_;  ///< (from, to), producer
  std::map<std::string, Tie> tables_;
  int operators_ = 0;
};

}  // namespace nestplan::cost
