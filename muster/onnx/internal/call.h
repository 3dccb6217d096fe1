// One node of a TorchScript graph while it is written as ONNX: its arguments by the names of the
// ATen operation. For sources alone. Thread safety: one thread.
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "muster/onnx/internal/graph_writer.h"
#include "muster/onnx/internal/observed_graph.h"

namespace muster::inline v0_1::onnx::internal {

// The names that values of the TorchScript graph have in ONNX. Integers that follow a free axis are
// int64 [1]; the step of a loop is that and, as its second name, int64 []. A list has a name for
// each element.
using ValueNames = std::unordered_map<const torch::jit::Value*, std::vector<std::string>>;

class Call {
 public:
  Call(const torch::jit::Node& node, const ObservedGraph& observed, GraphWriter& writer,
       ValueNames& names);

  const torch::jit::Node& node() const { return node_; }
  GraphWriter& writer() { return writer_; }
  // "aten::mul".
  std::string operation() const;

  // Whether the operation has the argument, and it is not None.
  bool has(const char* argument) const;
  // The tensor of an argument, of the first run: its dtype and shape.
  Tensor form(const char* argument) const;
  bool is_tensor(const char* argument) const;
  DType dtype(const char* argument) const { return form(argument).scalar_type(); }
  int64_t rank(const char* argument) const { return form(argument).dim(); }
  // The result of the first run, and whether both runs gave an axis the same size.
  const Tensor& result(size_t index = 0) const;
  DType result_dtype() const { return result().scalar_type(); }
  bool is_fixed(size_t index, int64_t axis) const;

  bool is_fixed_argument(const char* argument, int64_t axis) const;
  // The tensors of a result that is a list, of the first run; whether the second gave as many
  // with the same sizes along an axis.
  std::vector<Tensor> results() const;
  bool same_results(int64_t axis) const;

  // The name of a tensor; of a number as a scalar of `dtype`; cast to `dtype` if it has another.
  std::string in(const char* argument);
  std::string in(const char* argument, DType dtype);
  std::vector<std::string> list(const char* argument, std::optional<DType> dtype = {});
  // Names of int64 tensors; "" where none is given.
  std::vector<std::string> optional_list(const char* argument);
  // Constants. They throw InvalidArgument ("not supported: ...") for one that follows a free axis.
  int64_t integer(const char* argument) const;
  double number(const char* argument) const;
  double number_or(const char* argument, double otherwise) const;
  bool flag(const char* argument) const;
  bool flag_or(const char* argument, bool otherwise) const;
  std::string text(const char* argument) const;
  std::vector<int64_t> integers(const char* argument) const;
  // `count` integers: one that is given alone is repeated.
  std::vector<int64_t> integers(const char* argument, size_t count) const;
  // An axis from 0 on.
  int64_t axis(const char* argument, int64_t rank) const;
  std::vector<int64_t> axes(const char* argument, int64_t rank) const;
  // The constant tensors of a list, with the names of their weights; empty if they depend on the
  // inputs.
  std::vector<std::pair<Tensor, std::string>> constants(const char* argument) const;
  // The constant tensor of an argument, if it is one.
  std::optional<Tensor> constant(const char* argument) const;

  // Whether no input changes the argument.
  bool is_constant(const char* argument) const { return observed(argument).constant; }

  // int64 tensors: [1] for an integer, [n] for a list, also of sizes that follow a free axis.
  std::string size_of(const char* argument);
  std::string sizes_of(const char* argument);
  // Each number of a list as int64 [1].
  std::vector<std::string> size_list(const char* argument);
  // [1]: the size of an axis of a tensor.
  std::string size_at(const std::string& tensor, int64_t axis);
  std::string join_sizes(const std::vector<std::string>& sizes);

  std::string add(const std::string& operation, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {}) {
    return writer_.add(operation, inputs, attributes);
  }
  std::string cast(const std::string& tensor, DType from, DType to);
  // A tensor that is reshaped to the shape of the result; one axis may follow a free one.
  std::string reshape_to_result(const std::string& tensor);
  // The name of a tensor, or of an integer as int64 [1].
  std::string name_of(const torch::jit::Value* value);
  std::string size_name(const torch::jit::Value* value);
  // The tensor of a value, of the first run: its dtype and shape.
  const Tensor& form_of(const torch::jit::Value* value) const {
    return observed_.at(value).tensor();
  }
  // Says what the result is.
  void give(const std::string& name, size_t index = 0);
  void give(const std::vector<std::string>& names, size_t index = 0);

  // Throws InvalidArgument with the operation and the nearest weight.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const torch::jit::Value* value(const char* argument) const;
  const ObservedValue& observed(const char* argument) const;
  const ObservedValue& constant_of(const char* argument) const;

  const torch::jit::Node& node_;
  const ObservedGraph& observed_;
  GraphWriter& writer_;
  ValueNames& names_;
};

}  // namespace muster::inline v0_1::onnx::internal
