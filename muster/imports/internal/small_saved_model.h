// Small SavedModels for tests and fuzzing, as bytes. Source of the format:
// muster/bundles/saved_model_file.h. Thread safety: free functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::imports {

enum class SmallField : uint32_t { k1 = 1, k2, k3, k4, k5, k6, k7, k8, k10 = 10 };
using SmallMessage = formats::internal::Builder<SmallField>;

inline std::string small_entry(const std::string& key, const std::string& value) {
  SmallMessage to;
  to.put_bytes(SmallField::k1, key);
  to.put_bytes(SmallField::k2, value);
  return to.take();
}

// Attributes: a dtype (1 is float32), a function, a tensor of float32.
inline std::string small_type(int dtype) {
  SmallMessage to;
  to.put_varint(SmallField::k6, dtype);
  return to.take();
}
inline std::string small_function(const std::string& name) {
  SmallMessage function, to;
  function.put_bytes(SmallField::k1, name);
  to.put_bytes(SmallField::k10, function.bytes());
  return to.take();
}
inline std::string small_tensor(const std::vector<int64_t>& shape,
                                const std::vector<float>& values) {
  SmallMessage tensor, to;
  tensor.put_varint(SmallField::k1, 1);
  tensor.put_bytes(SmallField::k2, formats::internal::encode_shape(shape));
  for (const float value : values) tensor.put_fixed(SmallField::k5, value);
  to.put_bytes(SmallField::k8, tensor.bytes());
  return to.take();
}

struct SmallNode {
  std::string name, operation;
  std::vector<std::string> inputs{};
  std::vector<std::pair<std::string, std::string>> attributes{};

  std::string bytes() const {
    SmallMessage to;
    to.put_bytes(SmallField::k1, name);
    to.put_bytes(SmallField::k2, operation);
    for (const std::string& input : inputs) to.put_bytes(SmallField::k3, input);
    for (const auto& [key, value] : attributes)
      to.put_bytes(SmallField::k5, small_entry(key, value));
    return to.take();
  }
};

// A function of one argument "a", whose result "r" is the value `result`.
struct SmallFunction {
  std::string name;
  std::vector<SmallNode> nodes;
  std::string result;

  std::string bytes() const {
    SmallMessage argument, returned, signature, to;
    argument.put_bytes(SmallField::k1, "a");
    returned.put_bytes(SmallField::k1, "r");
    signature.put_bytes(SmallField::k1, name);
    signature.put_bytes(SmallField::k2, argument.bytes());
    signature.put_bytes(SmallField::k3, returned.bytes());
    to.put_bytes(SmallField::k1, signature.bytes());
    for (const SmallNode& node : nodes) to.put_bytes(SmallField::k3, node.bytes());
    to.put_bytes(SmallField::k4, small_entry("r", result));
    return to.take();
  }
};

struct SmallModel {
  std::vector<SmallNode> nodes{};
  std::vector<SmallFunction> functions{};
  std::string output = "y:0";
  int input_dtype = 1;

  // With the input "x" [-1, 2] and the output "y" [-1, 2] of the signature "serving_default".
  std::string bytes() const {
    SmallMessage graph, library, signature, meta, model;
    for (const SmallNode& node : nodes) graph.put_bytes(SmallField::k1, node.bytes());
    for (const SmallFunction& each : functions) library.put_bytes(SmallField::k1, each.bytes());
    graph.put_bytes(SmallField::k2, library.bytes());
    signature.put_bytes(SmallField::k1, small_entry("x", info("x:0", input_dtype)));
    signature.put_bytes(SmallField::k2, small_entry("y", info(output, 1)));
    signature.put_bytes(SmallField::k3, "tensorflow/serving/predict");
    meta.put_bytes(SmallField::k2, graph.bytes());
    meta.put_bytes(SmallField::k5, small_entry("serving_default", signature.bytes()));
    model.put_varint(SmallField::k1, 1);
    model.put_bytes(SmallField::k2, meta.bytes());
    return model.take();
  }

 private:
  static std::string info(const std::string& tensor, int dtype) {
    SmallMessage to;
    to.put_bytes(SmallField::k1, tensor);
    to.put_varint(SmallField::k2, dtype);
    to.put_bytes(SmallField::k3, formats::internal::encode_shape({-1, 2}));
    return to.take();
  }
};

// y = f(x), f(a) = relu(a w), with w as a constant.
inline SmallModel small_model() {
  return {.nodes = {{"x", "Placeholder", {}, {{"dtype", small_type(1)}}},
                    {"y", "PartitionedCall", {"x"}, {{"f", small_function("f")}}}},
          .functions = {{"f",
                         {{"out", "Relu", {"product:product:0"}},
                          {"product", "MatMul", {"a", "w:output:0"}},
                          {"w", "Const", {}, {{"value", small_tensor({2, 2}, {1, 0, 0, -1})}}}},
                         "out:activations:0"}}};
}

}  // namespace muster::inline v0_1::imports
