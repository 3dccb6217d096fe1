#include "muster/base/library_settings.h"

namespace muster {
namespace {

bool amd_with_avx512() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace

std::optional<std::string> openblas_core_type(const Environment& environment) {
  if (environment.has("OPENBLAS_CORETYPE") || !amd_with_avx512()) return std::nullopt;
  return "SKYLAKEX";
}

std::optional<std::string> openmp_spin_count(const Environment& environment) {
  if (environment.has("GOMP_SPINCOUNT") || environment.has("OMP_WAIT_POLICY")) return std::nullopt;
  return "2000";
}

}  // namespace muster
