// The common part of LAMB and LARS: which variables decay and have a trust ratio, and that ratio.
// Thread safety: an immutable value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/optim/internal/name_patterns.h"
#include "muster/optim/update_rule.h"

namespace muster::inline v0_1::optim::internal {

class LayerAdaptation {
 public:
  // `adaptation` is `decay` if it is not given. Throws as NamePatterns does.
  LayerAdaptation(const char* owner, const std::vector<std::string>& decay,
                  const std::optional<std::vector<std::string>>& adaptation);

  bool decays(const Segment& segment) const;
  WeightDecay weight_decay(double weight_decay) const { return decay_.weight_decay(weight_decay); }
  bool adapts(const Segment& segment) const;
  // Returns the patterns of both; if `adaptation` was not given, the patterns of `decay` once.
  std::vector<NamePattern> name_patterns() const;
  // Returns ", exclude_from_weight_decay=[...], exclude_from_layer_adaptation=[...]" for those that
  // are not empty.
  std::string describe() const;

 private:
  NamePatterns decay_, adaptation_;
  bool own_adaptation_;  // it was given
};

}  // namespace muster::inline v0_1::optim::internal
