// A Prediction holds the outputs of a model for one example, or for a batch, by name.
// Thread safety: a value.
#pragma once

#include <map>
#include <string>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

class MUSTER_EXPORT Prediction {
 public:
  // The outputs by their names.
  using Outputs = std::map<std::string, Tensor>;

  Prediction() = default;
  explicit Prediction(Outputs outputs) : outputs_(std::move(outputs)) {}

  // Returns the output `name`. Throws InvalidArgument with the existing names and the nearest one.
  const Tensor& at(const std::string& name) const;
  const Tensor& operator[](const std::string& name) const { return at(name); }
  // Whether there is an output of that name.
  bool contains(const std::string& name) const { return outputs_.contains(name); }

  // All outputs, pairs of name and tensor, in the order of their names.
  Outputs::const_iterator begin() const { return outputs_.begin(); }
  Outputs::const_iterator end() const { return outputs_.end(); }
  size_t size() const { return outputs_.size(); }
  bool empty() const { return outputs_.empty(); }

 private:
  Outputs outputs_;
};

}  // namespace muster::inline v0_1
