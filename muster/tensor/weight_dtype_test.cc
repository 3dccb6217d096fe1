#include "muster/tensor/weight_dtype.h"

#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

TEST(WeightDtype, HasAPlaceANameAndAType) {
  EXPECT_EQ(weight_dtype_names(), "float32 or float64");
  int place = 0;
  for (const DType dtype : {kFloat32, kFloat64}) {
    EXPECT_TRUE(is_weight_dtype(dtype));
    EXPECT_EQ(weight_dtype_order(dtype), place++);
    const DType type = with_weight_type(
        dtype, [](auto zero) { return c10::CppTypeToScalarType<decltype(zero)>::value; });
    EXPECT_EQ(type, dtype);
  }
}

TEST(WeightDtype, OthersAreRefused) {
  for (const DType dtype : {kInt64, kBFloat16, at::kHalf}) {
    EXPECT_FALSE(is_weight_dtype(dtype));
    EXPECT_EQ(error_of([&] { weight_dtype_order(dtype); }).message(),
              "weights of " + dtype_name(dtype) + " cannot train");
    EXPECT_THROW(with_weight_type(dtype, [](auto) {}), Error);
  }
}

}  // namespace
}  // namespace muster::inline v0_1
