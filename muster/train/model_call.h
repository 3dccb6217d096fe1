// One call of a model function, with errors that name its place and its batch. Thread safety: as
// the model function and its context.
#pragma once

#include <cstdint>
#include <string_view>

#include "muster/distribute/replica_place.h"
#include "muster/train/estimator_spec.h"
#include "muster/train/input_fn.h"

namespace muster::inline v0_1 {

// Where a call is made, as errors say it: "at step 7 on worker 1".
struct CallPlace {
  std::string_view where{};                           // "at step"
  int64_t number = -1;                                // not named if it is negative
  const distribute::ReplicaPlace* replica = nullptr;  // not named if it is alone, or not given
};

// Returns the validated EstimatorSpec. Exceptions name the place, as with rethrow_with_place(); the
// hint for LibTorch's exceptions (shapes that do not fit, most often) is the form of the batch.
EstimatorSpec call_model(const ModelFn& model_fn, const Batch& batch, Mode mode,
                         ModelContext& context, const CallPlace& place);

// The call that only makes the variables, and comes before another one on the same batch: it is
// given copies of the tensors, for a model function may change its features in place. Its errors
// say "while the model was built". No gradients.
EstimatorSpec call_model_to_build(const ModelFn& model_fn, const Batch& batch, Mode mode,
                                  ModelContext& context,
                                  const distribute::ReplicaPlace* replica = nullptr);

}  // namespace muster::inline v0_1
