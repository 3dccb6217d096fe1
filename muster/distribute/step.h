// The input of one replica to a step, and the result of the step over all replicas.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/base/clock.h"
#include "muster/losses/reduction.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::optim {
struct TrainOp;
}

namespace muster::inline v0_1::distribute {

// The input of one replica to a step.
struct StepInput {
  const optim::TrainOp* train_op = nullptr;
  Tensor loss{};  // scalar
  ReduceOp reduction = ReduceOp::kMean;
  double weight = 0;     // weight of the loss; default: the rows of the batch
  bool has_data = true;  // false: the input of this replica has ended
  int64_t rows = 0;      // examples of this replica in this step
  bool stop = false;     // this task was asked to stop
  bool save = false;     // the chief wants a checkpoint after this step
  // The number of steps after this one that the chief wants recorded for a profile.
  int64_t profile_steps = 0;
};

// The result of a step over all replicas; the same on each.
struct StepResult {
  bool updated = true;   // false: gradients are kept for a later update; nothing below is set
  bool any_data = true;  // false: no replica has data left, and nothing was updated
  bool finite = true;    // false: nothing was updated; see Replica::report_non_finite()
  double loss = 0;       // by the reduction rule
  int64_t rows = 0;      // examples over all replicas
  bool stop = false;
  bool save = false;
  int64_t profile_steps = 0;
  // Updates made so far, if other tasks make updates as well; unset: one more than before.
  std::optional<int64_t> global_step = {};
};

// How long each part of the last step took.
struct StepTimes {
  Seconds backward{};
  Seconds reduction{};  // the part that the backward pass did not hide
  Seconds update{};
};

// The sums over the batches of one update so far, on this replica.
struct Accumulated {
  int64_t batches = 0;
  ReduceOp reduction = ReduceOp::kMean;
  double weight = 0;
  double loss = 0;       // multiplied by the weights, or the plain sum
  double last_loss = 0;  // of the last batch, for messages
  int64_t rows = 0;
  bool has_data = false;
  bool stop = false;
  bool save = false;
  int64_t profile_steps = 0;
  bool report_non_finite = false;  // instead of throwing
  bool mean() const { return reduction == ReduceOp::kMean; }
};

}  // namespace muster::inline v0_1::distribute
