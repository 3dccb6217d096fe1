// The head of a model with several targets. Thread safety: pure functions.
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/heads/head.h"

namespace muster::inline v0_1 {

// Options of MultiHead().
struct MultiHeadOptions {
  std::vector<Head> heads{};           // with different names and the same loss_reduction
  std::vector<double> head_weights{};  // one for each head, finite and 0 or more; empty: 1
};

// Labels are a dict with an entry for each head, by its name. Logits are one tensor, whose last
// axis is divided in the order of the heads, or one tensor for each head by its name. The loss is
// the sum of the losses of the heads, times head_weights.
//   metrics: loss/<head>, and those of each head, with its name as suffix.
//   predictions: "<head>/<key>".
//   export: serving_default is that of the first head; <head> is the default of each head, and
//     <head>/<key> are its others; predict has all predictions of all heads.
// Throws InvalidArgument if an option is outside its documented range, and, when it is used, with
// the names of the heads whose labels or logits are missing.
MUSTER_EXPORT Head MultiHead(MultiHeadOptions options);

}  // namespace muster::inline v0_1
