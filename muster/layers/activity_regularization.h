// A penalty on the values inside a model, as a separate layer.
// Thread safety: immutable values.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of ActivityRegularization().
struct ActivityRegularizationOptions {
  double l1 = 0;
  double l2 = 0;
  std::string name{};
};

// Returns its input, [batch, ...] of a floating-point dtype, and adds (l1 * sum(|x|) + l2 * sum(x *
// x)) / batch to the loss. A mask is passed on unchanged. Throws InvalidArgument unless l1 and l2
// are finite and at least 0.
MUSTER_EXPORT Layer ActivityRegularization(ActivityRegularizationOptions options = {});

}  // namespace muster::inline v0_1
