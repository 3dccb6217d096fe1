// One node of a model while it runs. For sources alone. Thread safety: one thread.
//
// Constants and sizes are known values: what is computed of them alone is computed apart from
// autograd and from a trace, as plain numbers, so that a trace of the model follows the sizes of
// its inputs as the trace of a C++ function does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/imports/internal/imported_graph.h"
#include "muster/tensor/device.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::onnx::internal {

struct RunValue {
  Tensor tensor{};
  bool known = false;         // made of constants and sizes alone; then it is on the CPU
  bool follows_size = false;  // made of sizes
  // A list of tensors instead of a tensor; an element may be undefined. Lists are never known.
  std::shared_ptr<const std::vector<Tensor>> list{};
};

class GraphRun;

class NodeRun {
 public:
  // `widens`: inputs of float16 and bfloat16 are given as float32.
  NodeRun(const ImportedNode& node, GraphRun& graph, bool widens = false);

  const ImportedNode& node() const { return node_; }
  GraphRun& graph() { return graph_; }
  int64_t opset() const { return node_.opset; }

  size_t inputs() const { return node_.inputs.size(); }
  size_t outputs() const { return node_.outputs.size(); }
  bool has(size_t input) const;
  bool wants(size_t output) const {
    return output < node_.outputs.size() && node_.outputs[output] != kNoSlot;
  }
  // An input. Throws Corrupt if it is not given.
  Tensor in(size_t input) const;
  Tensor in_or(size_t input, const Tensor& otherwise) const {
    return has(input) ? in(input) : otherwise;
  }
  // The numbers of an input of integers, or of one number.
  std::vector<int64_t> integers(size_t input) const;
  int64_t integer(size_t input) const;
  double number(size_t input) const;
  const RunValue& value(size_t input) const;

  // Attributes. They throw Corrupt for one of another type.
  bool has_attribute(const char* name) const { return node_.attributes.contains(name); }
  const ImportedAttribute& attribute(const char* name) const;  // throws Corrupt without it
  int64_t integer_attribute(const char* name, int64_t otherwise) const;
  double number_attribute(const char* name, double otherwise) const;
  std::string text_attribute(const char* name, const std::string& otherwise) const;
  std::vector<int64_t> integers_attribute(const char* name,
                                          const std::vector<int64_t>& otherwise) const;
  // An axis from 0 on. Throws InvalidArgument for one that a tensor of this rank has not.
  int64_t axis(const char* name, int64_t otherwise, int64_t rank) const;
  int64_t normalized(int64_t axis, int64_t rank) const;
  // The axes of an input, which older opsets have as the attribute "axes"; empty if there is none.
  std::vector<int64_t> axes(size_t input, int64_t rank) const;

  // The results are known; see RunValue.
  void know_sizes() { knows_sizes_ = true; }
  bool knows_sizes() const { return knows_sizes_; }

  // Gives all results as values, and not as the tensors that the kernel returns.
  void give(std::vector<RunValue> values) { given_ = std::move(values); }
  std::vector<RunValue>& given() { return given_; }

  // Throws InvalidArgument ("not supported: ...") with the node.
  [[noreturn]] void refuse(const std::string& what) const;
  // Throws InvalidArgument with the node unless `good`.
  void require(bool good, const char* what) const;

 private:
  const ImportedNode& node_;
  GraphRun& graph_;
  const bool widens_;
  bool knows_sizes_ = false;
  std::vector<RunValue> given_;
};

// float16 and bfloat16.
bool has_16_bits(DType dtype);

// Attributes for what reads them when the model is loaded. Throws Corrupt with the node.
[[noreturn]] void refuse_attribute(const ImportedNode& node, const std::string& what);

}  // namespace muster::inline v0_1::onnx::internal
