// Attributes of nodes of TensorFlow graphs, and the tensors in them. Source of the format:
// tensorflow/core/framework/attr_value.proto, tensor.proto. For sources alone. Thread safety: pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/imports/internal/imported_graph.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::imports {

using onnx::internal::ImportedAttribute;
using tensorflow::BundleDtype;

// LibTorch's dtype; nothing if it has none with the same bytes. References to variables have the
// dtype of their numbers.
std::optional<DType> torch_dtype(BundleDtype dtype);

// An AttrValue: flags and dtypes are `integer`, shapes `integers` with -1 for free axes, the name
// of a function `text`. A tensor of texts is `texts`; one of another dtype that LibTorch lacks is
// undefined. Throws Corrupt for bytes that are no attribute, and for a tensor whose numbers
// do not fit its shape; InvalidArgument ("not supported: ...") for a tensor of few numbers that
// its shape repeats beyond any use.
ImportedAttribute read_tensorflow_attribute(Bytes attribute);

}  // namespace muster::inline v0_1::imports
