#include "nestplan/model/overlap.hpp"

#include "nestplan/util/errors.hpp"

namespace nestplan::model {

double Overlap::of(const Collective& collective) const {
  switch (collective.group) {
    case GroupKind::kTensor:
      return tensor;
    case GroupKind::kContext:
      return collective.op == CollectiveOp::kAllToAll ? 0 : context;
    case GroupKind::kExpert:
      return expert;
    case GroupKind::kData:
      return shards;
  }
  throw InternalError("a collective has a group that does not exist");
}

}  // namespace nestplan::model
