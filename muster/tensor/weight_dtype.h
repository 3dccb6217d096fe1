// Lists the dtypes of weights that train. Code that initialises, computes with, updates or lays out
// weights asks here, so that a new dtype is added in one place.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <utility>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Tells whether weights of that dtype can train.
MUSTER_PART_EXPORT bool is_weight_dtype(DType dtype);
// Gives "float32 or float64", for messages.
MUSTER_PART_EXPORT std::string weight_dtype_names();
// Gives the place of the dtype's flat buffer among those of the other weight dtypes: 0, 1, ...
// Throws InvalidArgument for a dtype that is not in the list.
MUSTER_PART_EXPORT int weight_dtype_order(DType dtype);

// Calls fn(T{}), where T is the C++ type of the dtype. Throws InvalidArgument for a dtype that is
// not in the list.
template <typename Fn>
decltype(auto) with_weight_type(DType dtype, Fn&& fn) {
  weight_dtype_order(dtype);
  return dtype == kFloat32 ? std::forward<Fn>(fn)(float{}) : std::forward<Fn>(fn)(double{});
}

}  // namespace muster::inline v0_1
