// Writes the form of an element, without its content, as text. A replica that never had data needs
// it to take part in a step. Thread safety: pure functions.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// Returns JSON: the structure, and kind, dtype and trailing shape of every value of a batch.
MUSTER_PART_EXPORT std::string encode_batch_spec(const Element& batch);
// Makes a batch of that form with zero rows. Throws Internal when encode_batch_spec() did not write
// the text.
MUSTER_PART_EXPORT Element zero_rows(const std::string& spec);

}  // namespace muster::inline v0_1
