// How much filling up rows of unequal lengths may take. Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <string>

namespace muster::inline v0_1::data::internal {

// Throws InvalidArgument if a batch that was read from `read_bytes` is padded to more than 64 MiB,
// and more than kMostUnpacked times as much: one long row among many empty ones is few bytes of a
// file. It also throws if that is more than the memory of the machine. `what` begins the message:
// "the feature \"x\" of 64 examples, of up to 9 values".
void check_padding(const std::string& what, double padded_bytes, uint64_t read_bytes);

}  // namespace muster::inline v0_1::data::internal
