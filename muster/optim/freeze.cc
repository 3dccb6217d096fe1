#include "muster/optim/freeze.h"

#include "muster/optim/internal/name_patterns.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::optim {

Optimizer freeze(Optimizer optimizer, const std::vector<std::string>& variables) {
  const internal::NamePatterns frozen("freeze", "variables", variables);
  return optimizer.only([frozen](const VariableSpec& spec) { return !frozen.match(spec.name); },
                        "freeze(" + frozen.describe() + ")", frozen.list());
}

}  // namespace muster::inline v0_1::optim
