// The form of an element without its content, as text: what a replica that never had data needs to
// take part in a step. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// JSON: structure, and kind, dtype and trailing shape of every value of a batch.
std::string encode_batch_spec(const Element& batch);
// A batch of that form with zero rows. Throws Internal when the text is not one of
// encode_batch_spec's.
Element zero_rows(const std::string& spec);

}  // namespace muster::inline v0_1
