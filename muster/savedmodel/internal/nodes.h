// Short names for nodes of common operations. For sources alone. Thread safety: one thread.
#pragma once

#include <string>
#include <vector>

#include "muster/savedmodel/internal/tensorflow_graph.h"

namespace muster::inline v0_1::saved_model::internal {

// The dtypes of ids, places and sizes, and of texts.
inline constexpr BundleDtype kId = BundleDtype::kInt64;
inline constexpr BundleDtype kText = BundleDtype::kString;

class Nodes {
 public:
  explicit Nodes(TensorflowGraph& graph) : graph_(graph) {}

  // An operation of one dtype whose result has it too, or is boolean.
  std::string of_same(const std::string& operation, const std::vector<std::string>& inputs) const;
  std::string test(const std::string& operation, const std::vector<std::string>& inputs) const;
  std::string both(const std::string& a, const std::string& b) const;
  std::string where(const std::string& condition, const std::string& a, const std::string& b) const;
  std::string cast(const std::string& value, BundleDtype dtype) const;
  std::string text(const std::string& text) const { return graph_.texts({}, {text}); }
  std::string int64(int64_t number) const;  // a scalar
  // int64, one size for each axis.
  std::string sizes(const std::string& value) const;
  // A vector of scalars of int64.
  std::string pack(const std::vector<std::string>& scalars) const;
  // Element i of a vector of int64.
  std::string element(const std::string& vector, int64_t i) const;
  // Whether all are true: a scalar.
  std::string all(const std::string& flags, int64_t axes) const;
  // The value, if `condition`, a scalar, holds; else the call fails with the message.
  std::string checked(const std::string& value, const std::string& condition,
                      const std::string& message) const;
  std::string dense(const std::string& indices, const std::string& sizes, const std::string& values,
                    const std::string& other) const;

 private:
  TensorflowGraph& graph_;
};

}  // namespace muster::inline v0_1::saved_model::internal
