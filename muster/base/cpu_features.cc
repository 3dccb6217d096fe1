#include "muster/base/cpu_features.h"

#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace muster::inline v0_1 {
namespace {

#if defined(__x86_64__)
// Tells which states of registers the operating system keeps (XCR0).
uint64_t kept_registers() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kOsUsesXsave = 1U << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & kOsUsesXsave) == 0) return 0;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

CpuFeatures ask_processor() {
  __builtin_cpu_init();
  CpuFeatures found;
  found.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  found.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  // Not every compiler knows names for these two. Source: Intel's Software Developer's Manual,
  // CPUID leaf 7.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) found.avx512_bf16 = found.avx512 && (a >> 5 & 1);
  constexpr uint64_t kTiles = uint64_t{3} << 17;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    found.amx_bf16 = found.avx512 && (d >> 22 & 1) && (kept_registers() & kTiles) == kTiles;
  }
  return found;
}
#else
CpuFeatures ask_processor() { return {}; }
#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures found = ask_processor();
  return found;
}

std::string describe(const CpuFeatures& features) {
  std::string names;
  for (const auto& [has, name] :
       {std::pair(features.avx2, "AVX2"), std::pair(features.avx512, "AVX512"),
        std::pair(features.avx512_bf16, "AVX512-BF16"), std::pair(features.amx_bf16, "AMX-BF16")}) {
    if (has) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names.empty() ? "none beyond the baseline" : names;
}

}  // namespace muster::inline v0_1
