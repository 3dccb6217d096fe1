#include "muster/layers/testing/allow_slow_bfloat16.h"

#include "muster/layers/internal/bfloat16.h"

namespace muster::inline v0_1::testing {

AllowSlowBfloat16::AllowSlowBfloat16() { internal::allow_slow_bfloat16(true); }
AllowSlowBfloat16::~AllowSlowBfloat16() { internal::allow_slow_bfloat16(false); }

}  // namespace muster::inline v0_1::testing
