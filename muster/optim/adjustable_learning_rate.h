// A learning rate that a program changes between steps. Thread safety: the factor may be set while
// updates run; the next update sees it.
#pragma once

#include <atomic>
#include <memory>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Returns the same optimizer, whose learning rate, a number or a schedule, is multiplied by
// `factor`. All replicas must have the same factor in a step. Throws InvalidArgument if there is
// none.
MUSTER_PART_EXPORT Optimizer adjustable_learning_rate(
    const Optimizer& optimizer, std::shared_ptr<const std::atomic<double>> factor);

}  // namespace muster::inline v0_1::optim
