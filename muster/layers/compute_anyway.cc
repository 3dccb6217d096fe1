#include "muster/layers/compute_anyway.h"

#include "muster/layers/internal/bfloat16.h"

namespace muster::inline v0_1::testing {

ComputeAnyway::ComputeAnyway() { internal::let_any_machine_pass(true); }
ComputeAnyway::~ComputeAnyway() { internal::let_any_machine_pass(false); }

}  // namespace muster::inline v0_1::testing
