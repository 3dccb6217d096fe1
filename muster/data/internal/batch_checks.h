// Checks of the batch under way, and their errors. Thread safety: pure functions.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>

#include "muster/data/internal/node.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Returns the result of `make`. Its errors name the stage and the first element of the batch.
template <typename Make>
auto in_batch(const Node& batch, const Place& first, Make make) {
  try {
    return make();
  } catch (...) {
    std::rethrow_exception(current_failure(
        fmt::format("no batch that begins with {} (pass {}), in {}",
                    describe_place(first, *batch.input()), first.tag.run, batch.description)));
  }
}

// Throws InvalidArgument when `rows` rows take more than the memory of the machine. A batch may be
// larger than its data set, repeated, and gathering it would end only when memory does.
// `row_bytes` gives the bytes of one row; it is called only for large batches.
void check_fits(const Node& batch, int64_t rows, const std::function<uint64_t()>& row_bytes);

}  // namespace muster::inline v0_1::data::internal
