// A batch of examples for model functions. Thread safety: a value.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/tensor/element.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1 {

struct Batch {
  Features features{};
  Labels labels{};
  // The weights of a data set of (features, labels, weights), as in Keras's fit(); else undefined.
  ElementView weights = {};
  // The number of examples in the batch.
  int64_t rows() const { return features.rows(); }
};

// Makes a batch from an element of a data set: features, (features, labels), or (features, labels,
// weights). Throws InvalidArgument for a tuple of more parts, or if a value does not have the
// examples along axis 0.
MUSTER_EXPORT Batch to_batch(const Element& element);
// Throws InvalidArgument if there are weights, for callers that do not support them.
MUSTER_EXPORT void refuse_weights(const Batch& batch);

}  // namespace muster::inline v0_1
