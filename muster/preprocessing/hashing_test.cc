#include "muster/preprocessing/hashing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/hash.h"
#include "muster/preprocessing/internal/test_calls.h"

namespace muster::inline v0_1 {
namespace {

using testing::Calls;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::texts;

// The four examples of Keras's documentation.
TEST(HashingTest, DocumentedExamples) {
  const Strings letters = texts({"A", "B", "C", "D", "E"}, {5, 1});
  expect_equal(Hashing(3)(letters), ints({1, 0, 1, 1, 2}, {5, 1}));
  expect_equal(Hashing(3, {.mask_value = ""})(texts({"A", "B", "", "C", "D"}, {5, 1})),
               ints({1, 1, 0, 2, 2}, {5, 1}));
  expect_equal(Hashing(3, {.salt = {133, 137}})(letters), ints({1, 2, 1, 0, 2}, {5, 1}));
  expect_equal(Hashing(3, {.salt = {133}})(letters), ints({0, 0, 2, 1, 0}, {5, 1}));
}

TEST(HashingTest, IntegersAreHashedAsDigits) {
  const Tensor numbers = ints({0, -7, 1234567890123, 42}, {2, 2});
  expect_equal(Hashing(1000)(numbers),
               Hashing(1000)(texts({"0", "-7", "1234567890123", "42"}, {2, 2})));
  expect_equal(Hashing(1000)(numbers.slice(1, 0, 1).to(kInt32))[0],
               ints({static_cast<int64_t>(fingerprint64("0") % 1000)}, {1}));
  const Hashing masked(10, {.mask_value = 42});
  const Tensor bins = masked(numbers);
  EXPECT_EQ(bins[1][1].item<int64_t>(), 0);
  EXPECT_EQ(bins[0][0].item<int64_t>(), 1 + static_cast<int64_t>(fingerprint64("0") % 9));
  Calls calls;
  const Layer layer = masked;
  expect_equal(layer(numbers, calls.context), bins);
}

TEST(HashingTest, EncodesBuckets) {
  const Strings letters = texts({"A", "C"}, {1, 2});
  expect_equal(Hashing(3, {.output_mode = OutputMode::kCount})(letters), floats({0, 2, 0}, {1, 3}));
  expect_equal(Hashing(3, {.output_mode = OutputMode::kMultiHot})(letters),
               floats({0, 1, 0}, {1, 3}));
  expect_equal(Hashing(3, {.output_mode = OutputMode::kOneHot})(Strings::scalar("A")),
               floats({0, 1, 0}, {3}));
  // One bucket leaves no place for a mask.
  expect_equal(Hashing(1, {.mask_value = "A"})(letters), ints({0, 0}, {1, 2}));
}

TEST(HashingTest, MistakesAreRefused) {
  EXPECT_THAT(message_of([] { Hashing(0); }), HasSubstr("Hashing: num_bins is 0"));
  EXPECT_THAT(message_of([] { Hashing(2, {.salt = {1, 2, 3}}); }), HasSubstr("salt has 3"));
  EXPECT_THAT(message_of([] { Hashing(2, {.output_mode = OutputMode::kTfIdf}); }),
              HasSubstr("output_mode is kTfIdf"));
  EXPECT_THAT(message_of([] { Hashing(2)(torch::ones({2})); }), HasSubstr("expected integers"));
  EXPECT_THAT(message_of([] { Hashing(2, {.mask_value = "x"})(ints({1}, {1})); }),
              HasSubstr("mask_value is \"x\", and the input is integers"));
  EXPECT_THAT(message_of([] { Hashing(2, {.mask_value = 3})(texts({"a"}, {1})); }),
              HasSubstr("mask_value is \"3\", and the input is texts"));
}

}  // namespace
}  // namespace muster::inline v0_1
