// Collects the nodes and constants of an ONNX graph. For sources alone. Thread safety: one thread.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::onnx::internal {

// ONNX's number of a dtype. Throws InvalidArgument ("not supported: ...") for one that ONNX lacks.
::onnx::TensorProto_DataType onnx_dtype(DType dtype);

// An attribute of a node.
using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, Tensor, ::onnx::GraphProto>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

class GraphWriter {
 public:
  // Adds a node with one result and returns the name of the result. An input "" is an optional one
  // that is not given. `label` is the weight near the operation; names are made of it.
  std::string add(const std::string& operation, const std::vector<std::string>& inputs,
                  const Attributes& attributes = {});
  // The same for several results. `domain` "" has ONNX's own operations.
  std::vector<std::string> add_with_outputs(const std::string& operation,
                                            const std::vector<std::string>& inputs,
                                            const Attributes& attributes, size_t outputs,
                                            const std::string& domain = "");
  // Adds a tensor and returns its name: `wanted`, or another one if that is taken. The same memory
  // in the same form is added once; a transposed matrix becomes a Transpose of the one that exists.
  std::string constant(const Tensor& value, const std::string& wanted = "");
  // Adds a weight of the model in the same way.
  std::string weight(const Tensor& value, const std::string& wanted);
  // The names of the weights; take() forgets them.
  const std::set<std::string>& weights() const { return weights_; }
  // int64: a list, and a list of one number.
  std::string integers(const std::vector<int64_t>& values);
  // A scalar of the dtype.
  std::string scalar(double value, DType dtype);

  // Nodes go to the body of a loop from here on, until end_body() returns it. Constants stay in the
  // graph. A body may use all names of what is around it.
  void begin_body() { bodies_.emplace_back(); }
  ::onnx::GraphProto end_body();

  // The names that follow begin with it: "net/dense/MatMul".
  void set_label(std::string label) { label_ = std::move(label); }
  // A new name that begins with `wanted`.
  std::string unused(const std::string& wanted);
  // Adds an input or an output of the graph; a size below 0 has the name of the same place in
  // `axes`.
  void add_input(const std::string& name, DType dtype, const Shape& shape,
                 const std::vector<std::string>& axes);
  // Says what is known of a value; ONNX's shape inference finds out the rest.
  void note_rank(const std::string& value, DType dtype, int64_t rank);
  // From now on nothing else has this name, which an output gets later.
  void reserve(const std::string& name);
  void add_output(const std::string& name, const std::string& value, DType dtype,
                  const Shape& shape, const std::vector<std::string>& axes);

  // The graph without nodes and constants that no output needs. The writer is empty afterwards.
  ::onnx::GraphProto take();
  // Whether a node is of ai.onnx.ml.
  bool has_ml() const { return has_ml_; }

 private:
  void rename_outputs();
  void remove_unused();
  void add_ranks(::onnx::GraphProto& graph) const;

  ::onnx::GraphProto graph_;
  std::vector<::onnx::GraphProto> bodies_;  // the innermost last
  std::string label_;
  std::set<std::string> taken_;
  std::map<std::string, int> numbers_;
  // Constants by their memory, with their names.
  std::map<const void*, std::vector<std::pair<Tensor, std::string>>> constants_;
  std::vector<Tensor> kept_;  // keeps the memory of constants, so that addresses stay unique
  std::set<std::string> weights_;
  std::map<std::string, std::pair<DType, int64_t>> ranks_;
  std::map<std::string, std::string> integers_;
  std::vector<std::pair<std::string, std::string>> outputs_;  // name and value
  bool has_ml_ = false;
};

}  // namespace muster::inline v0_1::onnx::internal
