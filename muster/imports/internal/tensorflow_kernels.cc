#include "muster/imports/internal/tensorflow_kernels.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/imports/internal/tensorflow_attributes.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::imports {
namespace {

// TensorFlow's names, and ONNX's, of operations that are the same for the attributes they have.
constexpr std::pair<const char*, const char*> kSame[] = {
    {"Abs", "Abs"},
    {"Acos", "Acos"},
    {"Acosh", "Acosh"},
    {"Add", "Add"},
    {"AddN", "Sum"},
    {"AddV2", "Add"},
    {"Asin", "Asin"},
    {"Asinh", "Asinh"},
    {"Atan", "Atan"},
    {"Atanh", "Atanh"},
    {"BitwiseAnd", "BitwiseAnd"},
    {"BitwiseOr", "BitwiseOr"},
    {"BitwiseXor", "BitwiseXor"},
    {"BroadcastTo", "Expand"},
    {"Ceil", "Ceil"},
    {"ClipByValue", "Clip"},
    {"Cos", "Cos"},
    {"Cosh", "Cosh"},
    {"Elu", "Elu"},
    {"Erf", "Erf"},
    {"Exp", "Exp"},
    {"Floor", "Floor"},
    {"GatherNd", "GatherND"},
    {"Greater", "Greater"},
    {"GreaterEqual", "GreaterOrEqual"},
    {"Inv", "Reciprocal"},
    {"Invert", "BitwiseNot"},
    {"IsNan", "IsNaN"},
    {"Less", "Less"},
    {"LessEqual", "LessOrEqual"},
    {"Log", "Log"},
    {"LogSoftmax", "LogSoftmax"},
    {"LogicalAnd", "And"},
    {"LogicalNot", "Not"},
    {"LogicalOr", "Or"},
    {"Maximum", "Max"},
    {"Minimum", "Min"},
    {"Mul", "Mul"},
    {"Neg", "Neg"},
    {"Pow", "Pow"},
    {"Range", "Range"},
    {"RealDiv", "Div"},
    {"Reciprocal", "Reciprocal"},
    {"Relu", "Relu"},
    {"Rint", "Round"},
    {"Round", "Round"},
    {"SelectV2", "Where"},
    {"Selu", "Selu"},
    {"Sigmoid", "Sigmoid"},
    {"Sign", "Sign"},
    {"Sin", "Sin"},
    {"Sinh", "Sinh"},
    {"Softmax", "Softmax"},
    {"Softplus", "Softplus"},
    {"Softsign", "Softsign"},
    {"Sqrt", "Sqrt"},
    {"Sub", "Sub"},
    {"Tan", "Tan"},
    {"Tanh", "Tanh"},
    {"TensorScatterUpdate", "ScatterND"},
    {"Tile", "Tile"},
    {"TruncateDiv", "Div"},
};

}  // namespace

const KernelMap& tensorflow_kernel_map() {
  static const KernelMap map = [] {
    KernelMap all;
    for (const auto& [name, other] : kSame) all[name] = onnx::internal::kernel_map().at(other);
    add_tensorflow_elementwise(all);
    add_tensorflow_shapes(all);
    add_tensorflow_indexing(all);
    add_tensorflow_reductions(all);
    add_tensorflow_networks(all);
    add_tensorflow_lists(all);
    add_tensorflow_sparse(all);
    return all;
  }();
  return map;
}

DType dtype_attribute(const NodeRun& call, const char* name, DType otherwise) {
  if (!call.has_attribute(name)) return otherwise;
  const auto dtype = static_cast<BundleDtype>(call.attribute(name).integer);
  if (const auto known = torch_dtype(dtype)) return *known;
  call.refuse("has numbers of " + tensorflow::describe(dtype));
}

int64_t axis_in(const NodeRun& call, size_t input, int64_t rank) {
  return call.normalized(call.integer(input), rank);
}

Tensor integers_of(const std::vector<int64_t>& numbers, DType dtype) {
  const Apart apart;
  return torch::tensor(numbers, at::kLong).to(dtype);
}

}  // namespace muster::inline v0_1::imports
