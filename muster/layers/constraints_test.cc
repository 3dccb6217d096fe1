#include "muster/layers/constraints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/layers/internal/test_layers.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;
using testing::numbers;

// Columns of norm 5 and 1.
Tensor columns() { return torch::tensor({3.0, 1.0, 4.0, 0.0}, at::kDouble).view({2, 2}); }

void expect_rows(const Tensor& value, std::vector<double> expected) {
  EXPECT_TRUE(
      torch::allclose(value, torch::tensor(expected, at::kDouble).view(value.sizes()), 1e-6, 1e-9))
      << value;
}

TEST(ConstraintsTest, GiveKerasNumbers) {
  using namespace constraints;
  expect_rows(max_norm()(columns()), {1.2, 1, 1.6, 0});
  expect_rows(max_norm(2, {1})(columns()), {6 / std::sqrt(10), 2 / std::sqrt(10), 2, 0});
  expect_rows(max_norm(2, {-1})(columns()), {6 / std::sqrt(10), 2 / std::sqrt(10), 2, 0});
  expect_rows(max_norm(0)(columns()), {0, 0, 0, 0});
  expect_rows(unit_norm()(columns()), {0.6, 1, 0.8, 0});
  expect_rows(min_max_norm()(columns()), {0.6, 1, 0.8, 0});
  expect_rows(min_max_norm({.min_value = 2, .max_value = 4, .rate = 0.5})(columns()),
              {2.7, 1.5, 3.6, 0});
  expect_rows(non_neg()(columns() - 1.5), {1.5, 0, 2.5, 0});
}

// A vector of length 0 keeps it: the epsilon is in the divisor.
TEST(ConstraintsTest, ZerosStayZeros) {
  const Tensor zeros = torch::zeros({2, 2}, at::kDouble);
  for (const Constraint& each : {constraints::max_norm(), constraints::unit_norm(),
                                 constraints::min_max_norm({.min_value = 1})}) {
    expect_rows(each(zeros), {0, 0, 0, 0});
  }
}

TEST(ConstraintsTest, NormsOfAConvolutionAreThoseOfItsFilters) {
  const Tensor kernel = numbers({3, 3, 2, 4});
  const Tensor unit = constraints::unit_norm({0, 1, 2})(kernel);
  EXPECT_TRUE(torch::allclose(unit.square().sum({0, 1, 2}), torch::ones({4}, at::kDouble)));
  EXPECT_TRUE(torch::allclose(unit / unit.select(0, 0).select(0, 0).select(0, 0),
                              kernel / kernel.select(0, 0).select(0, 0).select(0, 0)));
}

TEST(ConstraintsTest, BitsDoNotDependOnThreads) {
  const int threads = num_threads();
  for (const Shape& shape : {Shape{100000}, Shape{50000, 3}, Shape{40, 50, 60}}) {
    std::vector<int64_t> all;
    int64_t elements = 1;
    for (const int64_t size : shape) {
      all.push_back(static_cast<int64_t>(all.size()));
      elements *= size;
    }
    const Tensor value = torch::arange(elements).to(kFloat32).sin();
    std::vector<Tensor> results;
    for (const int count : {1, 2, 3}) {
      set_threads(count);
      results.push_back(constraints::max_norm(1, all)(value.view(shape)));
    }
    set_threads(threads);
    EXPECT_TRUE(results[0].equal(results[1]) && results[0].equal(results[2])) << describe(shape);
  }
}

TEST(ConstraintsTest, KnowWhetherRowsMayComeAlone) {
  EXPECT_TRUE(constraints::non_neg().by_rows(2));
  EXPECT_TRUE(constraints::max_norm(2, {1}).by_rows(2));
  EXPECT_TRUE(constraints::max_norm(2, {-1}).by_rows(2));
  EXPECT_FALSE(constraints::max_norm(2, {-1}).by_rows(1));
  EXPECT_FALSE(constraints::unit_norm().by_rows(2));
  EXPECT_FALSE(constraints::min_max_norm({.axis = {0, 1}}).by_rows(2));
  const Constraint own = [](const Tensor& value) { return value.clamp(-1, 1); };
  EXPECT_FALSE(own.by_rows(2));
}

TEST(ConstraintsTest, RefusesBadInput) {
  using namespace constraints;
  const auto message = [](const auto& make) {
    const Error error = error_of(make);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  EXPECT_THAT(message([] { max_norm(-1); }), HasSubstr("max_norm: max_value is -1"));
  EXPECT_THAT(message([] { max_norm(1, {}); }), HasSubstr("max_norm: axis is []"));
  EXPECT_THAT(message([] { unit_norm({1, 1}); }), HasSubstr("unit_norm: axis is [1, 1]"));
  EXPECT_THAT(message([] { min_max_norm({.min_value = 2}); }),
              HasSubstr("min_max_norm: min_value is 2, and max_value 1"));
  EXPECT_THAT(message([] { min_max_norm({.rate = 1.5}); }), HasSubstr("rate is 1.5"));
  EXPECT_THAT(message([] { max_norm(1, {2})(columns()); }),
              HasSubstr("max_norm: axis is [2], of the weight float64[2, 2]"));
  EXPECT_THAT(message([] { max_norm(1, {0, -2})(columns()); }), HasSubstr("axis is [0, -2]"));
  const Constraint wrong = [](const Tensor& value) { return value.sum(); };
  EXPECT_THAT(message([&] { wrong(columns()); }), HasSubstr("gave float64[] for float64[2, 2]"));
}

}  // namespace
}  // namespace muster::inline v0_1
