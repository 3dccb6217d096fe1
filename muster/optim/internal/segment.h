// Every update rule checks its segment and marks its writes. Thread safety: functions of a segment
// that belongs to the caller.
#pragma once

#include "muster/optim/update_rule.h"

namespace muster::inline v0_1::optim::internal {

// Throws InvalidArgument unless the tensors of the segment fit each other and the slots of the
// rule.
void check_segment(const UpdateRule& rule, const Segment& segment);

// Autograd must notice that saved weights changed, as it does for its own in-place operations.
void mark_written(const Tensor& weights);

}  // namespace muster::inline v0_1::optim::internal
