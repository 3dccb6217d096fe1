// Rows of generated numbers, such as a request may have, on which a model is traced and tested.
// Thread safety: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/export/serving_input_receiver.h"

namespace muster::inline v0_1::internal {

// The numbers of features without examples.
struct Numbers {
  double least = 0, most = 1;  // of floats; integers are 0 and 1
  uint64_t draw = 0;           // other numbers for another one
};

// Returns `rows` rows of each feature, with these lengths of free_axes(). Those with an example
// have its rows again and again, and along a free axis its slices again and again. The others have
// numbers that differ from size to size. Ids of feature columns are -1, none, or 0: every table has
// row 0, and some have no other.
std::map<std::string, Tensor> batch_of(const ServingInputReceiver& receiver, int64_t rows,
                                       const std::vector<int64_t>& lengths,
                                       const Numbers& numbers = {});

}  // namespace muster::inline v0_1::internal
