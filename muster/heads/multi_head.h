// The head of a model with several objectives. Thread safety: pure functions.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of MultiHead().
struct MultiHeadOptions {
  std::vector<Head> heads{};  // each has a name of its own, and all the same loss_reduction
  std::vector<double> head_weights{};  // one for each head, finite and 0 or more; empty: 1
};

// Labels are a dict with an entry for each head, by its name. Logits are one tensor, whose last
// axis is divided in the order of the heads, or one by the name of each. The loss is the sum of the
// losses of the heads, times head_weights.
//   metrics: loss/<head>, and those of each head, which end with its name.
//   predictions: "<head>/<key>".
//   export: serving_default is that of the first head; <head> is that of each; <head>/<key>; and
//     predict has all predictions of all heads.
// Throws InvalidArgument for options that are not as said there, and, when it is used, naming the
// heads whose labels or logits are missing.
MUSTER_EXPORT Head MultiHead(MultiHeadOptions options);

}  // namespace muster::inline v0_1
