// A look at the data of evaluations before training begins: a file that is missing is better known
// now than after the hours of training. Thread safety: one thread.
#pragma once

#include <vector>

#include "muster/estimator/train_and_evaluate.h"

namespace muster::inline v0_1::internal {

// Reads the first element of the input of each spec. A pipeline that reads a generator or another
// live stream is left alone: its elements may take long, and be gone then. Throws the errors of the
// input function and the pipeline, naming the spec, and InvalidArgument for an input without data.
void look_at_inputs(const std::vector<EvalSpec>& specs);

// `input_fn`, which calls `before` first.
InputFn preceded_by(const InputFn& input_fn, const std::function<void()>& before);

}  // namespace muster::inline v0_1::internal
