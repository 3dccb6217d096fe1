// NamePatterns chooses variables by name: regular expressions, one of which is found somewhere in
// the name ("bias", "^encoder/", "layer_normalization.*/gamma$"). Thread safety: an immutable
// value. Optimizers are made anew in every step, so expressions and their matches are remembered
// for the life of the process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/optim/name_pattern.h"
#include "muster/optim/update_rule.h"

namespace muster::inline v0_1::optim::internal {

class NamePatterns {
 public:
  NamePatterns() = default;
  // Throws InvalidArgument that names `owner`, `field` and the pattern that is none (of
  // RE2), and for an empty one, which is in every name. Both are literals.
  NamePatterns(const char* owner, const char* field, const std::vector<std::string>& patterns);

  bool empty() const { return patterns_.empty(); }
  bool match(const std::string& name) const;
  // Returns which variables decay if the matching ones are left out of a decay.
  WeightDecay weight_decay(double weight_decay) const;
  std::string describe() const;  // "[bias, ^encoder/]"
  // Each of them, with `owner` and `field`.
  std::vector<NamePattern> list() const;

 private:
  class Pattern;
  const char* owner_ = "";
  const char* field_ = "";
  std::vector<std::shared_ptr<const Pattern>> patterns_;
};

}  // namespace muster::inline v0_1::optim::internal
