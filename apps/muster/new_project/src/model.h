// The model: the meaning of a batch, and how to learn from it.
#pragma once

#include <muster/muster.h>

struct ModelOptions {
  int64_t hidden_units = 64;
  double learning_rate = 0.01;
};

// Features {"point": float32[batch, 2]}, labels int64[batch]. Predicts "class", int64[batch], and
// "probability", float32[batch].
muster::ModelFn make_model_fn(const ModelOptions& options);
