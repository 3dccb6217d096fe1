// One node of an ONNX graph while it is written as TensorFlow's operations. For sources alone.
// Thread safety: one thread.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/savedmodel/internal/tensorflow_graph.h"

namespace muster::inline v0_1::saved_model::internal {

// What is known of a value of the ONNX graph.
struct ValueForm {
  BundleDtype dtype = BundleDtype::kFloat;
  std::vector<int64_t> shape{};  // -1: a size that follows a free axis
};

// A weight as it is in the checkpoint; its name is that of the node of its handle.
struct GraphVariable {
  std::string name{};
  BundleDtype dtype = BundleDtype::kFloat;
  std::vector<int64_t> shape{};
  const ::onnx::TensorProto* values = nullptr;
  std::string in_other_order{};  // the numbers, if they are not in the order of `values`

  std::string_view bytes() const {
    return in_other_order.empty() ? std::string_view(values->raw_data()) : in_other_order;
  }
};

// The values of the ONNX graph: their forms, their names in TensorFlow, and the tensors that are
// constants of it. Those that are weights become variables when they are first used.
struct KnownValues {
  std::map<std::string, ValueForm> forms{};
  std::map<std::string, std::string> names{};
  std::map<std::string, const ::onnx::TensorProto*> constants{};
  std::set<std::string> weights{};
  std::vector<GraphVariable> variables{};
  // Weights that are kept in another order: the variable's value, and the axes that lead back.
  std::map<std::string, std::pair<std::string, std::vector<int64_t>>> reordered{};
  // Transposes that were added: of what, and how.
  std::map<std::string, std::pair<std::string, std::vector<int64_t>>> transposes{};
};

class Call {
 public:
  Call(const ::onnx::NodeProto& node, TensorflowGraph& graph, KnownValues& known);

  const ::onnx::NodeProto& node() const { return node_; }
  TensorflowGraph& graph() { return graph_; }

  // Arguments by place.
  size_t inputs() const { return static_cast<size_t>(node_.input_size()); }
  bool has(size_t place) const;
  std::string in(size_t place);
  // The argument with its axes in another order. A weight that nothing has used yet is kept in this
  // order.
  std::string in_order(size_t place, const std::vector<int64_t>& axes);
  const ValueForm& form(size_t place) const;
  BundleDtype dtype(size_t place) const { return form(place).dtype; }
  int64_t rank(size_t place) const { return static_cast<int64_t>(form(place).shape.size()); }
  const std::vector<int64_t>& shape(size_t place) const { return form(place).shape; }
  const ValueForm& result(size_t place = 0) const;
  // The integers of an argument that is a constant; nothing else.
  std::optional<std::vector<int64_t>> constant(size_t place) const;
  // The same; throws InvalidArgument ("not supported: ...") if it depends on the inputs.
  std::vector<int64_t> integers_in(size_t place) const;

  // Attributes by name.
  int64_t integer(const char* name, int64_t otherwise) const;
  std::vector<int64_t> integers(const char* name) const;
  double number(const char* name, double otherwise) const;
  std::string text(const char* name, const std::string& otherwise) const;
  // An axis from 0 on.
  int64_t axis(int64_t otherwise, int64_t rank) const;

  // Adds an operation whose attribute T is the dtype of its first input, and so is its result.
  std::string add(const std::string& operation, const std::vector<std::string>& inputs,
                  const Attributes& more = {});
  // Adds one with the attributes that are given alone.
  std::string add_as(BundleDtype result, const std::string& operation,
                     const std::vector<std::string>& inputs, const Attributes& attributes);
  std::string number_like(const std::string& value, double number) {
    return graph_.scalar(number, graph_.dtype(value));
  }
  std::string cast(const std::string& value, BundleDtype dtype);
  std::string reshape(const std::string& value, const std::string& shape);
  std::string reshape_to(const std::string& value, const std::vector<int64_t>& shape);
  // Of a tensor with one number.
  std::string scalar_of(const std::string& value) { return reshape_to(value, {}); }
  // Two transposes in a row become one, or none.
  std::string transpose(const std::string& value, const std::vector<int64_t>& axes);
  std::string reduce(const std::string& operation, const std::string& value,
                     const std::vector<int64_t>& axes, bool keep);
  std::string choose(const std::string& condition, const std::string& yes, const std::string& no);
  std::string gather(const std::string& value, const std::string& index, int64_t axis,
                     int64_t batch_axes = 0);
  std::string concatenate(const std::vector<std::string>& values, int64_t axis);
  // int64 [rank] of a tensor; [1] for an axis.
  std::string shape_of(const std::string& value);
  std::string size_at(const std::string& value, int64_t axis);

  void give(const std::string& name, size_t place = 0);

  // Throws InvalidArgument with the operation and its place.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  const ::onnx::AttributeProto* attribute(const char* name) const;
  std::string add_variable(const ::onnx::TensorProto& tensor, const std::vector<int64_t>& axes);

  const ::onnx::NodeProto& node_;
  TensorflowGraph& graph_;
  KnownValues& known_;
};

// The integers of an int64 or int32 tensor of ONNX.
std::vector<int64_t> integers_of(const ::onnx::TensorProto& tensor);

}  // namespace muster::inline v0_1::saved_model::internal
