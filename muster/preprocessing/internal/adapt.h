// Reading a data set once to learn from it. Thread safety: a function that keeps nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/data/dataset.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1::internal {

// Calls `learn(value, where)` for each element, without gradients; `where` is
// "Normalization.adapt: element 3". Throws InvalidArgument for data without end, and for an element
// that is not one value.
void for_each_value(const char* layer, const Dataset& batches,
                    const std::function<void(const Value& value, const std::string& where)>& learn);

// Returns a copy on the CPU as float64. Throws InvalidArgument, which begins with `where`, for an
// undefined tensor, and for numbers that are not finite.
Tensor finite_doubles(const Tensor& values, const std::string& where);

}  // namespace muster::inline v0_1::internal
