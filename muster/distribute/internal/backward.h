// Runs backward for the losses of a step.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <vector>

#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"

namespace muster::inline v0_1::distribute::internal {

// Throws InvalidArgument for a gradient that is not a dense tensor: embeddings of LibTorch that
// were made with sparse(true) have such.
void check_dense(const std::string& name, const Tensor& gradient);

class Backward {
 public:
  // `table` must outlive this object. With `tells`, it warns if a loss depends on tensors that
  // require a gradient but are not variables: nothing trains them.
  Backward(const VariableTable& table, bool tells) : table_(table), tells_(tells) {}

  // Backward of every distinct loss of `train_op`, whose gradient begins as `seed` times its
  // loss scale. Throws InvalidArgument for a loss that depends on no variable of the table.
  void run(const optim::TrainOp& train_op, const FlatParameters& parameters, double seed);

 private:
  // The same for several entries.
  void run_several(const optim::TrainOp& train_op, const FlatParameters& parameters, double seed);
  // Throws for a loss that depends on no variable.
  void check_loss(const Tensor& loss) const;
  // Backward of `loss` with the gradient `value`, to these variables; empty: to all. Unless it is
  // the last one, the graph is kept.
  void run_one(const Tensor& loss, double value, const std::vector<Tensor>& variables,
               bool last) const;

  const VariableTable& table_;
  const bool tells_;
  bool losses_checked_ = false;  // of the first step: the later ones are made alike
};

}  // namespace muster::inline v0_1::distribute::internal
