// Tensors of ONNX files. For sources alone. Thread safety: free functions.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>

#include "muster/imports/internal/imported_graph.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::onnx::internal {

// The dtype of ONNX's number. Throws InvalidArgument ("not supported: ...") for one that LibTorch
// lacks; `what` names the tensor.
DType dtype_of_element(int element_type, const std::string& what);

// Copies a tensor, from its message or from the file that it names. Throws Corrupt, with the name
// of the tensor, if the bytes are not what dtype and shape say; InvalidArgument for a dtype that
// LibTorch lacks and for external data in another folder than the model's; NotFound for a missing
// file.
Tensor read_tensor(const ::onnx::TensorProto& tensor, const ModelPlace& place);

}  // namespace muster::inline v0_1::onnx::internal
