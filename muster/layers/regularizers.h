// Makes penalties for a layer's weights and outputs, with Keras's formulas. A penalty on a weight
// is added to the loss of a step once, whatever the number of replicas and batches; a penalty on an
// output is divided by the size of the batch.
// Thread safety: pure functions.
#pragma once

#include "muster/base/export.h"
#include "muster/tensor/regularizer.h"

namespace muster::inline v0_1::regularizers {

// Computes l1 * the sum of the absolute values. Throws InvalidArgument unless l1 is finite and at
// least 0.
MUSTER_EXPORT Regularizer l1(double l1 = 0.01);

// Computes l2 * the sum of the squares: without a half. Throws as l1() does.
MUSTER_EXPORT Regularizer l2(double l2 = 0.01);

// Options of l1_l2().
struct L1L2Options {
  double l1 = 0.01;
  double l2 = 0.01;
};
// Computes the sum of both. Throws as l1() does.
MUSTER_EXPORT Regularizer l1_l2(L1L2Options options = {});

}  // namespace muster::inline v0_1::regularizers
