// The layers that do not train, by regular expressions of their names.
// Thread safety: immutable except for what it remembers, which it guards.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::keras::internal {

class FrozenLayers {
 public:
  // Throws InvalidArgument for what is not a regular expression.
  explicit FrozenLayers(std::vector<std::string> patterns);

  // Whether the layer of that name is frozen: one of the patterns is all of the name.
  bool operator()(const std::string& layer) const;
  // The patterns that match none of `layers`.
  std::vector<std::string> unmatched(const std::vector<std::string>& layers) const;
  // The optimizer without their variables.
  optim::Optimizer leave_out(const optim::Optimizer& optimizer) const;

 private:
  const std::vector<std::string> patterns_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, bool> known_;
};

// The name of the layer that a variable belongs to: "dense" of "dense/kernel".
std::string layer_of(const std::string& variable);

}  // namespace muster::inline v0_1::keras::internal
