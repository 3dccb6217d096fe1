// A step that a function described with minimize(), as the engine makes it.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/distribute/step.h"
#include "muster/layers/call_context.h"
#include "muster/optim/train_op.h"
#include "muster/train/engine.h"

namespace muster::inline v0_1::distribute {

// How the step is made.
struct RecordedStep {
  ReduceOp reduction = ReduceOp::kMean;
  int64_t examples = 0;  // of this replica
  bool stop = false;     // this task was asked to stop
};
// The losses that layers have added in `calls` are added to the loss of `train_op`.
MUSTER_PART_EXPORT StepResult train_recorded(Engine& engine, CallContext& calls,
                                             optim::TrainOp train_op, const RecordedStep& step);

}  // namespace muster::inline v0_1::distribute
