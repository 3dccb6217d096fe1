// The one place where values of several ranks are added. Elements of 16 bits are added as float32
// and rounded once, to nearest, ties to even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/collectives/internal/operation.h"

namespace muster::inline v0_1::internal {

// out[i] = ((inputs[0][i] + inputs[1][i]) + inputs[2][i]) + ... for `count` elements. `out` may be
// one of the inputs, but must not overlap one otherwise. Throws InvalidArgument for bytes, which
// have no sum.
void sum_in_rank_order(ElementType type, std::byte* out, std::span<const std::byte* const> inputs,
                       int64_t count);

// The same sum, written to every one of `buffers`, which are also the inputs.
void sum_everywhere(ElementType type, std::span<std::byte* const> buffers, int64_t count);

}  // namespace muster::inline v0_1::internal
