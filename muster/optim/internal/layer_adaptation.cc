#include "muster/optim/internal/layer_adaptation.h"

#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim::internal {
namespace {

bool excludes(const NamePatterns& patterns, const Segment& segment) {
  return segment.variable != nullptr && patterns.match(segment.variable->name);
}

}  // namespace

LayerAdaptation::LayerAdaptation(const char* owner, const std::vector<std::string>& decay,
                                 const std::optional<std::vector<std::string>>& adaptation)
    : decay_(owner, "exclude_from_weight_decay", decay),
      adaptation_(owner, "exclude_from_layer_adaptation", adaptation.value_or(decay)),
      own_adaptation_(adaptation.has_value()) {}

bool LayerAdaptation::decays(const Segment& segment) const { return !excludes(decay_, segment); }

bool LayerAdaptation::adapts(const Segment& segment) const {
  return !excludes(adaptation_, segment);
}

std::vector<NamePattern> LayerAdaptation::name_patterns() const {
  std::vector<NamePattern> all = decay_.list();
  if (!own_adaptation_) return all;
  for (NamePattern& one : adaptation_.list()) all.push_back(std::move(one));
  return all;
}

std::string LayerAdaptation::describe() const {
  std::string text;
  if (!decay_.empty()) text += ", exclude_from_weight_decay=" + decay_.describe();
  if (!adaptation_.empty()) text += ", exclude_from_layer_adaptation=" + adaptation_.describe();
  return text;
}

}  // namespace muster::inline v0_1::optim::internal
