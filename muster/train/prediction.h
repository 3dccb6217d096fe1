// A Prediction holds what a model gives for one example, or for a batch, by name.
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

  // The output `name`. Throws InvalidArgument that lists the names there are, and says which one
  // may have been meant.
  const Tensor& at(const std::string& name) const;
  const Tensor& operator[](const std::string& name) const { return at(name); }
  // Tells whether there is an output of that name.
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
