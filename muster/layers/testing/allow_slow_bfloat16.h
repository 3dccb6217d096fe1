// Tests of mixed precision run on every machine with this. It is not installed.
// Thread safety: any thread.
#pragma once

namespace muster::inline v0_1::testing {

// While one lives, mixed_precision("bfloat16", ...) computes on machines without instructions for
// it too, in all threads: the same numbers, slower.
class AllowSlowBfloat16 {
 public:
  AllowSlowBfloat16();
  ~AllowSlowBfloat16();
  AllowSlowBfloat16(const AllowSlowBfloat16&) = delete;
  AllowSlowBfloat16& operator=(const AllowSlowBfloat16&) = delete;
};

}  // namespace muster::inline v0_1::testing
