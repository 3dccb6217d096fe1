// A batch of examples as model functions see it. Thread safety: a value.
#pragma once

#include <cstdint>

#include "muster/tensor/element.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1 {

struct Batch {
  Features features;
  Labels labels;
  // Examples of the batch.
  int64_t rows() const { return features.rows(); }
};

// An element of a data set as a batch. Throws InvalidArgument when it is a tuple of more than two
// parts, or no batch: every value has the examples along axis 0.
Batch to_batch(const Element& element);

}  // namespace muster::inline v0_1
