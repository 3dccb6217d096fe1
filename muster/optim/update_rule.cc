#include "muster/optim/update_rule.h"

#include <fmt/format.h>

namespace muster::inline v0_1::optim {

std::vector<SlotSpec> UpdateRule::slots_of(const VariableSpec& /*variable*/) const {
  return slots();
}

std::string UpdateRule::describe() const {
  return fmt::format("{}(learning_rate={})", name(), learning_rate());
}

}  // namespace muster::inline v0_1::optim
