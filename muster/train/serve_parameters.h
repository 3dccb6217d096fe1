// The work of a parameter server's task in place of training. Thread safety: one thread.
#pragma once

#include "muster/train/estimator_spec.h"
#include "muster/train/input_fn.h"
#include "muster/train/trainer.h"

namespace muster::inline v0_1 {

// Holds its part of the model's weights and makes the updates until the run is over. The model
// function is called once, on zero rows of the batches that the chief has, so no data is read here.
// Throws the errors of distribute::Strategy::serve().
void serve_parameters(const ModelFn& model_fn, const TrainerOptions& options);

}  // namespace muster::inline v0_1
