// A batch of examples as model functions see it. Thread safety: a value.
#pragma once

#include <cstdint>

#include "muster/tensor/element.h"
#include "muster/tensor/features.h"

namespace muster::inline v0_1 {

struct Batch {
  Features features;
  Labels labels;
  // How many examples the batch has.
  int64_t rows() const { return features.rows(); }
};

// Makes a batch of an element of a data set. Throws InvalidArgument when the element is a tuple of
// more than two parts, or when a value does not have the examples along axis 0.
Batch to_batch(const Element& element);

}  // namespace muster::inline v0_1
