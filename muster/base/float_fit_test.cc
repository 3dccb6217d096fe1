#include "muster/base/float_fit.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace muster::inline v0_1 {
namespace {

bool fit(std::initializer_list<double> numbers) {
  FloatFit fit;
  for (const double number : numbers) fit.add(number);
  return fit.fits();
}

TEST(FloatFitTest, NumbersThatFloat32Distinguishes) {
  EXPECT_TRUE(fit({}));
  EXPECT_TRUE(fit({0.1, 0.7, 3.3}));
  EXPECT_TRUE(fit({1, 16777216}));
  EXPECT_TRUE(fit({0, 1e9}));              // a float
  EXPECT_TRUE(fit({20180130, 20180132}));  // even ones are
  EXPECT_TRUE(fit({100.1, 100.1}));
  EXPECT_TRUE(fit({1, std::nan(""), std::numeric_limits<double>::infinity()}));
}

TEST(FloatFitTest, NumbersThatFloat32DoesNotTellApart) {
  EXPECT_FALSE(fit({1, 16777217}));
  EXPECT_FALSE(fit({20180131, 20180201}));
  EXPECT_FALSE(fit({1517443200.25}));
  EXPECT_FALSE(fit({-16777217}));
  // Half a day in minutes, as days since 1900.
  EXPECT_FALSE(fit({43210.1, 43210.2, 43210.6}));
  EXPECT_TRUE(is_lost_in_float(16777217));
  EXPECT_FALSE(is_lost_in_float(16777218));
  EXPECT_FALSE(is_lost_in_float(0.1));
}

}  // namespace
}  // namespace muster::inline v0_1
