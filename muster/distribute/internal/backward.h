// Backward of the losses of a step.
// Thread safety: belongs to the replica's thread.
#pragma once

#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"

namespace muster::inline v0_1::distribute::internal {

class Backward {
 public:
  // `table` outlives it.
  explicit Backward(const VariableTable& table) : table_(table) {}

  // Backward of every distinct loss of `train_op`, whose gradient begins as `seed`. Throws
  // InvalidArgument for a loss that depends on no variable of the table.
  void run(const optim::TrainOp& train_op, const FlatParameters& parameters, double seed);

 private:
  const VariableTable& table_;
  bool losses_checked_ = false;  // of the first step: the later ones are made alike
};

}  // namespace muster::inline v0_1::distribute::internal
