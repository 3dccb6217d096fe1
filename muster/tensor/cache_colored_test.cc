#include "muster/tensor/cache_colored.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr int64_t kLong = 3 * 1024 * 1024;

uintptr_t address_of(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data_ptr());
}

TEST(CacheColored, IsFullAndOfTheDtypeAskedFor) {
  for (const int64_t elements : {int64_t{0}, int64_t{5}, kLong}) {
    for (const DType dtype : {kFloat32, kFloat64}) {
      const Tensor tensor = cache_colored(elements, 0.25, torch::zeros({1}, dtype), 3);
      EXPECT_TRUE(tensor.equal(torch::full({elements}, 0.25, dtype)));
      EXPECT_TRUE(tensor.is_contiguous());
      if (elements > 0) {
        EXPECT_EQ(address_of(tensor) % 64, 0);
      }
    }
  }
}

TEST(CacheColored, PlacesStandApartInMemoryThatBeginsAlike) {
  std::set<uintptr_t> offsets;
  for (int64_t place = 0; place < 16; ++place) {
    const Tensor tensor = cache_colored(kLong, 0, torch::zeros({1}), place);
    offsets.insert(address_of(tensor) - reinterpret_cast<uintptr_t>(tensor.storage().data()));
  }
  EXPECT_EQ(offsets.size(), 16);
  for (const uintptr_t offset : offsets) EXPECT_EQ(offset % 65536, 0);
}

}  // namespace
}  // namespace muster::inline v0_1
