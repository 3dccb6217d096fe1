#include "muster/base/library_settings.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(LibrarySettings, TheUsersChoiceStands) {
  EXPECT_EQ(openblas_core_type(Environment{{"OPENBLAS_CORETYPE", "HASWELL"}}), std::nullopt);
  EXPECT_EQ(openmp_spin_count(Environment{{"GOMP_SPINCOUNT", "1"}}), std::nullopt);
  EXPECT_EQ(openmp_spin_count(Environment{{"OMP_WAIT_POLICY", "passive"}}), std::nullopt);
}

TEST(LibrarySettings, OnlyAMachineWithAvx512IsToldToUseIt) {
  const auto core = openblas_core_type(Environment{});
  if (core) {
    EXPECT_EQ(*core, "SKYLAKEX");
#if defined(__x86_64__)
    EXPECT_TRUE(__builtin_cpu_supports("avx512f"));
#else
    ADD_FAILURE() << "AVX-512 belongs to x86-64";
#endif
  }
  EXPECT_EQ(openmp_spin_count(Environment{}), "2000");
}

}  // namespace
}  // namespace muster
