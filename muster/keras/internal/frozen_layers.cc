#include "muster/keras/internal/frozen_layers.h"

#include <utility>

#include "muster/optim/freeze.h"
#include "muster/optim/name_pattern.h"

namespace muster::inline v0_1::keras::internal {
namespace {

std::vector<optim::NamePattern> whole(const std::vector<std::string>& patterns) {
  std::vector<optim::NamePattern> all;
  for (const std::string& pattern : patterns)
    all.push_back({"freeze", "layers", "^(?:" + pattern + ")$"});
  return all;
}

}  // namespace

FrozenLayers::FrozenLayers(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {
  // As they were written, for the message.
  for (const std::string& pattern : patterns_)
    (void)optim::unmatched({{"freeze", "layers", pattern}}, {""});
}

bool FrozenLayers::operator()(const std::string& layer) const {
  if (patterns_.empty()) return false;
  const std::lock_guard lock(mutex_);
  const auto [known, added] = known_.try_emplace(layer, false);
  if (added) known->second = optim::unmatched(whole(patterns_), {layer}).size() < patterns_.size();
  return known->second;
}

std::vector<std::string> FrozenLayers::unmatched(const std::vector<std::string>& layers) const {
  std::vector<std::string> missed;
  for (const std::string& pattern : patterns_) {
    if (!optim::unmatched(whole({pattern}), layers).empty()) missed.push_back(pattern);
  }
  return missed;
}

optim::Optimizer FrozenLayers::leave_out(const optim::Optimizer& optimizer) const {
  if (patterns_.empty()) return optimizer;
  std::vector<std::string> variables;
  for (const std::string& pattern : patterns_) variables.push_back("^(?:" + pattern + ")/[^/]*$");
  return optim::freeze(optimizer, variables);
}

std::string layer_of(const std::string& variable) {
  return variable.substr(0, variable.rfind('/'));
}

}  // namespace muster::inline v0_1::keras::internal
