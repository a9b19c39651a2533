#pragma once

#include <variant>

#include "nestplan/cost/operators.hpp"

namespace nestplan::cost {

/// Counts the floating-point operations of matrix products and attention instead of timing them.
class FlopCounter final : public CostModel {
 public:
  double seconds(const Operator& op) const override {
    if (const auto* matmul = std::get_if<Matmul>(&op)) return matmul->flops();
    if (const auto* attention = std::get_if<Attention>(&op)) return attention->flops();
    return 0;
  }
  const Precision& precision() const override { return precision_; }

 private:
  Precision precision_ = precision_of("bf16");
};

}  // namespace nestplan::cost
