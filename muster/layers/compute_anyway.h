// Tests of mixed precision run on every machine with this. It is not installed.
// Thread safety: any thread.
#pragma once

namespace muster::inline v0_1::testing {

// While one lives, mixed_precision("bfloat16", ...) computes on machines without instructions for
// it too, in all threads: the same numbers, slower.
class ComputeAnyway {
 public:
  ComputeAnyway();
  ~ComputeAnyway();
  ComputeAnyway(const ComputeAnyway&) = delete;
  ComputeAnyway& operator=(const ComputeAnyway&) = delete;
};

}  // namespace muster::inline v0_1::testing
