#include "muster/preprocessing/category_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/preprocessing/internal/test_calls.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using testing::expect_close;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;

// The three examples of Keras's documentation.
TEST(CategoryEncodingTest, DocumentedExamples) {
  const CategoryEncoding one_hot(4, {.output_mode = OutputMode::kOneHot});
  expect_equal(one_hot(ints({3, 2, 0, 1}, {4})),
               floats({0, 0, 0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0}, {4, 4}));
  const CategoryEncoding multi_hot(4);
  const Tensor pairs = ints({0, 1, 0, 0, 1, 2, 3, 1}, {4, 2});
  expect_equal(multi_hot(pairs), floats({1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1}, {4, 4}));
  const CategoryEncoding count(4, {.output_mode = OutputMode::kCount});
  expect_close(count(pairs, floats({.1, .2, .1, .1, .2, .3, .4, .2}, {4, 2})),
               floats({.1, .2, 0, 0, .2, 0, 0, 0, 0, .2, .3, 0, 0, .2, 0, .4}, {4, 4}));
  expect_equal(count(pairs), floats({1, 1, 0, 0, 2, 0, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1}, {4, 4}));
}

TEST(CategoryEncodingTest, ListsFilledUpWithMinusOneBecomeLabelsOfSeveralClasses) {
  const Tensor ids = ints({2, 0, 1, -1, -1, -1}, {3, 2});
  expect_equal(CategoryEncoding(4)(ids + 1).narrow(-1, 1, 3),
               floats({1, 0, 1, 0, 1, 0, 0, 0, 0}, {3, 3}));
}

TEST(CategoryEncodingTest, ShapesFollowTheLastAxis) {
  const CategoryEncoding one_hot(3, {.output_mode = OutputMode::kOneHot}), multi_hot(3);
  expect_equal(one_hot(ints({2}, {})), floats({0, 0, 1}, {3}));
  expect_equal(one_hot(ints({2, 0}, {2, 1})), floats({0, 0, 1, 1, 0, 0}, {2, 3}));
  expect_equal(one_hot(ints({2, 0}, {1, 2})), floats({0, 0, 1, 1, 0, 0}, {1, 2, 3}));
  // A last batch of one row is a batch.
  expect_equal(one_hot(ints({2}, {1})), floats({0, 0, 1}, {1, 3}));
  expect_equal(multi_hot(ints({2, 0}, {2})), floats({1, 0, 1}, {3}));
  expect_equal(multi_hot(ints({2, 0}, {2, 1, 1})), floats({0, 0, 1, 1, 0, 0}, {2, 1, 3}));
  EXPECT_EQ(multi_hot(torch::zeros({0, 2}, kInt32)).sizes(), at::IntArrayRef({0, 3}));
  EXPECT_EQ(one_hot(torch::zeros({0, 1}, kInt32)).sizes(), at::IntArrayRef({0, 3}));
  // Nothing is among nothing.
  expect_equal(multi_hot(torch::zeros({2, 0}, kInt64)), torch::zeros({2, 3}));
  Calls calls;
  const Layer layer = multi_hot;
  expect_equal(layer(ints({1}, {1, 1}), calls.context), floats({0, 1, 0}, {1, 3}));
}

TEST(CategoryEncodingTest, MistakesAreRefused) {
  EXPECT_THAT(message_of([] { CategoryEncoding(0); }),
              HasSubstr("CategoryEncoding: num_tokens is 0"));
  EXPECT_THAT(message_of([] { CategoryEncoding(3, {.output_mode = OutputMode::kInt}); }),
              HasSubstr("output_mode is kInt"));
  const CategoryEncoding encode(3);
  EXPECT_THAT(message_of([&] {
                encode(ints({0, 3}, {2}));
              }),
              HasSubstr("the input has 3, and num_tokens is 3"));
  EXPECT_THAT(message_of([&] { encode(ints({-1, 0}, {2})); }), HasSubstr("the input has -1"));
  EXPECT_THAT(message_of([&] { encode(torch::ones({2})); }),
              HasSubstr("expected integers, was given float32[2]"));
  EXPECT_THAT(message_of([&] { encode(ints({1}, {1}), torch::ones({1})); }),
              HasSubstr("output_mode is kMultiHot"));
  const CategoryEncoding count(3, {.output_mode = OutputMode::kCount});
  EXPECT_THAT(message_of([&] { count(ints({1}, {1}), torch::ones({2})); }),
              HasSubstr("count_weights are float32[2], for the input int64[1]"));
}

}  // namespace
}  // namespace muster::inline v0_1
