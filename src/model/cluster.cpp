#include "nestplan/model/cluster.hpp"

#include <algorithm>

#include "nestplan/util/errors.hpp"

namespace nestplan::model {

std::int64_t Cluster::devices() const {
  std::int64_t product = 1;
  for (const NetworkLevel& level : network.levels) {
    if (__builtin_mul_overflow(product, level.fanout, &product)) {
      throw InvalidInput("the product of the network's fan-outs is beyond 64 bits");
    }
  }
  return std::min(product, network.devices.value_or(product));
}

}  // namespace nestplan::model
