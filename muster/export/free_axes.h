// The axes of an exported model's features whose length a request chooses: -1 in
// ServingFeature::shape. Thread safety: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "muster/export/serving_input_receiver.h"

namespace muster::inline v0_1 {

// An axis of a feature in a batch: 1 or more, because axis 0 is the batch.
struct FreeAxis {
  std::string feature{};
  int64_t axis = 1;
  bool operator==(const FreeAxis&) const = default;
};

// Returns the axes of the features, by name and axis, whose size is -1.
std::vector<FreeAxis> free_axes(const ServingInputReceiver& receiver);
// Returns the shape of `rows` rows of a feature. `lengths` has the length of each of free_axes().
Shape batch_shape(const ServingInputReceiver& receiver, const std::string& feature, int64_t rows,
                  const std::vector<int64_t>& lengths);

// Returns a length for each of free_axes() that `takes` does not throw an error for: those of the
// examples, and for features without an example 7, 33 or 129. Throws the error for the first of
// them if it throws one for all.
std::vector<int64_t> first_lengths(
    const ServingInputReceiver& receiver,
    const std::function<void(const std::vector<int64_t>& lengths)>& takes);

}  // namespace muster::inline v0_1
