#include "muster/base/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace muster::inline v0_1 {
namespace {

// Returns the flags that Linux lists for the first processor; nothing if it lists none.
std::set<std::string> flags_of_linux() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(CpuFeatures, AreThoseThatLinuxTells) {
#if !defined(__x86_64__)
  // They have names of x86; under an emulator, Linux lists those of the underlying processor.
  EXPECT_EQ(describe(cpu_features()), "none beyond the baseline");
  return;
#endif
  const std::set<std::string> flags = flags_of_linux();
  // Nothing to compare with where /proc is hidden: the kernel's flags are the only independent
  // witness.
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags here";
  const CpuFeatures& found = cpu_features();
  EXPECT_EQ(found.avx2, flags.count("avx2") && flags.count("fma"));
  EXPECT_EQ(found.avx512, flags.count("avx512f") && flags.count("avx512bw") &&
                              flags.count("avx512dq") && flags.count("avx512vl"));
  EXPECT_EQ(found.avx512_bf16, flags.count("avx512_bf16") == 1);
  EXPECT_EQ(found.amx_bf16, flags.count("amx_bf16") == 1);
}

TEST(CpuFeatures, AreNamed) {
  EXPECT_EQ(describe(CpuFeatures()), "none beyond the baseline");
  EXPECT_EQ(describe(CpuFeatures{.avx2 = true, .avx512 = true}), "AVX2, AVX512");
  EXPECT_EQ(describe(CpuFeatures{.avx512_bf16 = true, .amx_bf16 = true}), "AVX512-BF16, AMX-BF16");
  EXPECT_FALSE((CpuFeatures{.avx2 = true, .avx512 = true}.multiplies_bfloat16()));
  EXPECT_TRUE((CpuFeatures{.avx512_bf16 = true}.multiplies_bfloat16()));
  EXPECT_TRUE((CpuFeatures{.amx_bf16 = true}.multiplies_bfloat16()));
}

}  // namespace
}  // namespace muster::inline v0_1
