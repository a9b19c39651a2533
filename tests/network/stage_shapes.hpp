#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "nestplan/network/network.hpp"
#include "support/dice.hpp"

namespace nestplan::testing {

using Devices = std::vector<std::int64_t>;

/// Any number of pods, whether or not it divides the devices.
inline network::PodLayout random_pods(Dice& dice, std::int64_t devices) {
  const std::int64_t pods = dice.chance(50) ? dice.between(1, devices)
                                            : dice.between(1, std::min<std::int64_t>(devices, 8));
  return {devices, pods, devices / pods};
}

/// The groups of a stage of `tp·cp·inner` devices, from their definitions.
class StageShapes {
 public:
  using Shapes = std::set<network::GroupShape>;

  StageShapes(const network::Network& network, const network::PodLayout& pods, std::int64_t tp,
              std::int64_t cp, std::int64_t inner)
      : network_(network), pods_(pods), tp_(tp), cp_(cp), inner_(inner) {}

  Shapes tensor(std::int64_t pod, std::int64_t position) const {
    Shapes shapes;
    for (std::int64_t g = 0; g < cp_ * inner_; ++g) {
      Devices group;
      for (std::int64_t t = 0; t < tp_; ++t) group.push_back(device(pod, position, g, t));
      shapes.insert(network_.shape(group));
    }
    return shapes;
  }

  Shapes context(std::int64_t pod, std::int64_t position) const {
    Shapes shapes;
    for (std::int64_t replica = 0; replica < inner_; ++replica) {
      for (std::int64_t t = 0; t < tp_; ++t) {
        Devices group;
        for (std::int64_t c = 0; c < cp_; ++c) {
          group.push_back(device(pod, position, replica * cp_ + c, t));
        }
        shapes.insert(network_.shape(group));
      }
    }
    return shapes;
  }

  Shapes data(std::int64_t position) const {
    Shapes shapes;
    for (std::int64_t t = 0; t < tp_; ++t) shapes.insert(network_.shape(data_group(position, t)));
    return shapes;
  }

  /// `ep` consecutive members of a dp group.
  Shapes expert(std::int64_t position, std::int64_t ep) const {
    Shapes shapes;
    for (std::int64_t t = 0; t < tp_; ++t) {
      const Devices all = data_group(position, t);
      for (std::size_t first = 0; first < all.size(); first += static_cast<std::size_t>(ep)) {
        shapes.insert(network_.shape(std::span(all).subspan(first, static_cast<std::size_t>(ep))));
      }
    }
    return shapes;
  }

  bool expert_degree_fits(std::int64_t ep) const {
    const std::int64_t inside = cp_ * inner_;
    return inside % ep == 0 || (ep % inside == 0 && pods_.pods % (ep / inside) == 0);
  }

 private:
  std::int64_t device(std::int64_t pod, std::int64_t position, std::int64_t g,
                      std::int64_t t) const {
    return pod * pods_.pod_size + position + g * tp_ + t;
  }

  Devices data_group(std::int64_t position, std::int64_t t) const {
    Devices group;
    for (std::int64_t pod = 0; pod < pods_.pods; ++pod) {
      for (std::int64_t g = 0; g < cp_ * inner_; ++g) group.push_back(device(pod, position, g, t));
    }
    return group;
  }

  const network::Network& network_;
  const network::PodLayout& pods_;
  std::int64_t tp_, cp_, inner_;
};

/// Fails where a stage lies differently from the one at the start of pod 0: the definition of
/// Network::shapes_repeat.
inline void expect_shapes_repeat(const network::Network& network, const network::PodLayout& pods,
                                 std::int64_t unit, bool across_pods) {
  for (std::int64_t tp = 1; tp <= unit; ++tp) {
    for (std::int64_t cp = 1; unit % tp == 0 && cp <= unit / tp; ++cp) {
      if (unit / tp % cp != 0) continue;
      const StageShapes shapes(network, pods, tp, cp, unit / tp / cp);
      for (std::int64_t x = 0; x + unit <= pods.pod_size; x += unit) {
        for (std::int64_t pod = 0; pod < pods.pods; ++pod) {
          ASSERT_EQ(shapes.tensor(pod, x), shapes.tensor(0, 0)) << "pod " << pod << " at " << x;
          ASSERT_EQ(shapes.context(pod, x), shapes.context(0, 0)) << "pod " << pod << " at " << x;
        }
        if (!across_pods) continue;
        ASSERT_EQ(shapes.data(x), shapes.data(0)) << x;
        for (const std::int64_t ep : {1, 2, 3, 4, 6, 8}) {
          if (shapes.expert_degree_fits(ep)) {
            ASSERT_EQ(shapes.expert(x, ep), shapes.expert(0, ep)) << x << " ep " << ep;
          }
        }
      }
    }
  }
}

}  // namespace nestplan::testing
