// The attributes of TensorFlow's nodes as the bytes of its message AttrValue, and the dtypes that a
// graph has in addition to those of checkpoints. Source of the format:
// tensorflow/core/framework/attr_value.proto, tensor.proto, types.proto. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/bundles/tensor_bundle.h"

namespace muster::inline v0_1::saved_model::internal {

using tensorflow::BundleDtype;

// A variable's handle, and a list of tensors.
inline constexpr BundleDtype kResource{20};
inline constexpr BundleDtype kVariant{21};

// Names with encoded values.
using Attributes = std::vector<std::pair<std::string, std::string>>;

std::string type_value(BundleDtype dtype);
std::string type_values(const std::vector<BundleDtype>& dtypes);
std::string integer_value(int64_t number);
std::string integer_values(const std::vector<int64_t>& numbers);
std::string number_value(float number);
std::string flag_value(bool flag);
std::string text_value(std::string_view text);
// -1: any size.
std::string shape_value(const std::vector<int64_t>& shape);
std::string shape_values(const std::vector<std::vector<int64_t>>& shapes);
// The name of a function of the graph.
std::string function_value(std::string_view name);
// Numbers in row-major order, little-endian.
std::string tensor_value(BundleDtype dtype, const std::vector<int64_t>& shape,
                         std::string_view bytes);
std::string texts_value(const std::vector<int64_t>& shape, const std::vector<std::string>& texts);

// An entry of a map with texts as keys.
std::string map_entry(std::string_view key, std::string_view value);

}  // namespace muster::inline v0_1::saved_model::internal
