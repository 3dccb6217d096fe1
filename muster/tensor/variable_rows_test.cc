// The rows that a variable returns, and its notes about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/tensor/internal/unique_numbers.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::HasSubstr;

Variable table(int64_t rows, int64_t width) {
  Tensor values = torch::arange(rows * width, kFloat32).view({rows, width});
  return Variable({.name = "table", .shape = {rows, width}, .row_sparse = true},
                  values.set_requires_grad(true));
}

// Numbers below 0 among them, of which -1 takes the place.
Tensor some_numbers(int64_t count, int64_t size) {
  return (torch::arange(count) * 7919 + 3) % (size + 2) - 2;
}

TEST(UniqueNumbersTest, AreSortedEachOnceAndFoundAgain) {
  // Few numbers of a large table are sorted, others are counted by bits.
  for (const auto& [count, size] : {std::pair<int64_t, int64_t>{500, 64},
                                    {500, 1000},
                                    {1, 1},
                                    {64, 65},
                                    {3, 1 << 20},
                                    {0, 100}}) {
    const Tensor given = some_numbers(count, size);
    const auto [numbers, places] = internal::unique_numbers(given, size);
    const auto [expected, inverse, counts] = at::_unique2(given.masked_select(given.ge(0)));
    EXPECT_TRUE(numbers.equal(expected)) << count << " of " << size;
    EXPECT_TRUE(places.ge(0).equal(given.ge(0)));
    const Tensor known = given.ge(0);
    EXPECT_TRUE(
        numbers.index_select(0, places.masked_select(known)).equal(given.masked_select(known)));
  }
}

TEST(VariableRowsTest, PlacedRowsAreTheRows) {
  Variable variable = table(9, 3);
  const Tensor ids = torch::tensor({4, 4, 0, 8, 2, 0}, kInt64).view({2, 3});
  const Tensor rows = variable.rows(ids);
  const Variable::PlacedRows placed = variable.placed_rows(ids);
  EXPECT_EQ(placed.rows.size(0), 4);
  EXPECT_TRUE(placed.rows.index_select(0, placed.places.view({-1})).view({2, 3, 3}).equal(rows));
  EXPECT_TRUE(placed.rows.requires_grad());
  const auto uses = variable.take_row_uses();
  ASSERT_EQ(uses.size(), 2U);
  EXPECT_TRUE(uses[0].ids.equal(torch::tensor({0, 2, 4, 8}, kInt64)));
  EXPECT_TRUE(uses[1].ids.equal(uses[0].ids));
  EXPECT_TRUE(uses[1].rows.is_same(placed.rows));
}

TEST(VariableRowsTest, WithoutGradientsTheRowsAreThoseOfTheTable) {
  Variable variable = table(5, 2);
  const torch::NoGradGuard no_grad;
  const Tensor ids = torch::tensor({-3, 4}, kInt64);
  const Variable::PlacedRows placed = variable.placed_rows(ids);
  EXPECT_TRUE(placed.rows.is_same(variable.value()));
  EXPECT_TRUE(placed.places.equal(ids));
  EXPECT_TRUE(variable.row_uses().empty());
}

TEST(VariableRowsTest, AnIdBelowZeroIsARowOfNoneInPlacedRowsAlone) {
  Variable variable = table(5, 2);
  const Tensor ids = torch::tensor({-1, 3, -7}, kInt64);
  EXPECT_TRUE(variable.placed_rows(ids).places.equal(torch::tensor({-1, 0, -1}, kInt64)));
  EXPECT_THAT(message_of([&] { variable.rows(ids); }), HasSubstr("the id -1 at [0]"));
  EXPECT_THAT(message_of([&] {
                variable.placed_rows(torch::tensor({0, 5}, kInt64));
              }),
              HasSubstr("the id 5 at [1] of int64[2] is outside of the table table float32[5, 2] "
                        "row-sparse: it has 5 rows"));
}

}  // namespace
}  // namespace muster::inline v0_1
