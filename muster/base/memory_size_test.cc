#include "muster/base/memory_size.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

TEST(MemorySize, IsThatOfTheMachineOrTheLimitWhereThereIsOne) {
  const uint64_t limit = memory_limit(), size = memory_size();
  EXPECT_GT(size, uint64_t{1} << 24);
  if (limit > 0) {
    EXPECT_LE(size, limit);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
