// A batch of examples as model functions see it. Thread safety: a value.
#pragma once

#include <cstdint>

#include "muster/base/export.h"
#include "muster/tensor/element.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1 {

struct Batch {
  Features features{};
  Labels labels{};
  // Of a data set of (features, labels, weights), as Keras's fit() takes one; else undefined.
  ElementView weights = {};
  // How many examples the batch has.
  int64_t rows() const { return features.rows(); }
};

// Makes a batch of an element of a data set: features, (features, labels), or (features, labels,
// weights). Throws InvalidArgument when the element is a tuple of more parts, or when a value does
// not have the examples along axis 0.
MUSTER_EXPORT Batch to_batch(const Element& element);
// Throws InvalidArgument when there are weights, for who has no use for them.
MUSTER_EXPORT void refuse_weights(const Batch& batch);

}  // namespace muster::inline v0_1
