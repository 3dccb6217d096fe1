// The instructions of this machine's processor by which kernels are chosen. Thread safety: any
// thread.
#pragma once

#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Features that the processor has and the operating system lets programs use.
struct CpuFeatures {
  bool avx2 = false;         // with FMA
  bool avx512 = false;       // F, BW, DQ and VL
  bool avx512_bf16 = false;  // products of bfloat16 in vectors
  bool amx_bf16 = false;     // products of bfloat16 in tiles

  bool multiplies_bfloat16() const { return avx512_bf16 || amx_bf16; }
};

// Returns the features of this machine, which are queried once.
const CpuFeatures& cpu_features();
// Returns "AVX2, AVX512", for messages; "none beyond the baseline" if there is none.
MUSTER_PART_EXPORT std::string describe(const CpuFeatures& features);

}  // namespace muster::inline v0_1
