#include "muster/data/numpy_input_fn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "muster/base/error_of.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Element numbers(int64_t rows) {
  return Element::dict({{"a", torch::arange(rows)}, {"b", torch::arange(rows).to(at::kFloat)}});
}

// The values of "a" in each batch.
std::vector<std::vector<int64_t>> batches_of(const Dataset& dataset, size_t most) {
  std::vector<std::vector<int64_t>> batches;
  const auto iterator = dataset.iterator();
  std::optional<Element> batch;
  while (batches.size() < most && (batch = iterator->next())) {
    const Tensor a = batch->values()[0].tensor();
    batches.emplace_back(a.data_ptr<int64_t>(), a.data_ptr<int64_t>() + a.numel());
    EXPECT_TRUE(torch::equal(a.to(at::kFloat), batch->values()[1].tensor()));
  }
  return batches;
}

TEST(NumpyInputFn, GivesFeaturesAndLabelsInOrder) {
  const auto input_fn =
      numpy_input_fn(numbers(5), torch::arange(5) * 10, {.batch_size = 2, .shuffle = false});
  const auto iterator = input_fn().iterator();
  std::optional<Element> batch;
  ASSERT_TRUE(batch = iterator->next());
  EXPECT_EQ(batch->describe(), "({a: int64[2], b: float32[2]}, int64[2])");
  EXPECT_EQ(batch->values()[2].tensor()[1].item<int64_t>(), 10);
  EXPECT_EQ(input_fn().cardinality(), 3);
  EXPECT_EQ(batches_of(input_fn(), 9), (std::vector<std::vector<int64_t>>{{0, 1}, {2, 3}, {4}}));
}

TEST(NumpyInputFn, BatchesRunOverTheBorderOfEpochs) {
  const auto twice = numpy_input_fn(numbers(3), std::nullopt,
                                    {.batch_size = 2, .num_epochs = 3, .shuffle = false});
  EXPECT_EQ(batches_of(twice(), 9),
            (std::vector<std::vector<int64_t>>{{0, 1}, {2, 0}, {1, 2}, {0, 1}, {2}}));
  const auto forever = numpy_input_fn(
      numbers(3), std::nullopt, {.batch_size = 2, .num_epochs = std::nullopt, .shuffle = false});
  const auto batches = batches_of(forever(), 100);
  ASSERT_EQ(batches.size(), 100u);
  for (const auto& batch : batches) EXPECT_EQ(batch.size(), 2u);
}

TEST(NumpyInputFn, ShufflesEachEpochAnewWithinTheQueue) {
  const auto all =
      batches_of(numpy_input_fn(numbers(100), std::nullopt,
                                {.batch_size = 100, .num_epochs = 2, .shuffle = true})(),
                 9);
  ASSERT_EQ(all.size(), 2u);
  std::vector<int64_t> in_order(100);
  std::iota(in_order.begin(), in_order.end(), 0);
  EXPECT_NE(all[0], in_order);
  EXPECT_NE(all[0], all[1]);
  for (const auto& epoch : all) EXPECT_THAT(epoch, ::testing::UnorderedElementsAreArray(in_order));
  // Output i is one of the first i + capacity rows.
  const auto near =
      batches_of(numpy_input_fn(numbers(100), std::nullopt,
                                {.batch_size = 100, .shuffle = true, .queue_capacity = 4})(),
                 9);
  for (int64_t i = 0; i < 100; ++i) EXPECT_LT(near[0][static_cast<size_t>(i)], i + 4);
}

TEST(NumpyInputFn, RefusesWhatTheContractRefuses) {
  const auto message = [](const Element& x, const std::optional<Element>& y,
                          const NumpyInputOptions& options) {
    const Error error = error_of([&] { numpy_input_fn(x, y, options); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_NE(error.hint(), "");
    return error.message();
  };
  const NumpyInputOptions good{.shuffle = false};
  EXPECT_THAT(message(numbers(3), std::nullopt, {}), HasSubstr("shuffle is not set"));
  EXPECT_THAT(message(Element::dict({}), std::nullopt, good), HasSubstr("x of numpy_input_fn is"));
  EXPECT_THAT(message(numbers(3), Element::dict({}), good), HasSubstr("y of numpy_input_fn is"));
  EXPECT_THAT(message(numbers(3), Element::dict({{"a", torch::arange(3)}}), good),
              HasSubstr("\"a\" is both in x and in y"));
  EXPECT_THAT(message(numbers(3), torch::arange(2), good),
              AllOf(HasSubstr("x[\"a\"] is int64[3]"), HasSubstr("y is int64[2]")));
  EXPECT_THAT(message(Element::dict({{"a", torch::zeros({3})}, {"b", torch::zeros({4, 2})}}),
                      std::nullopt, good),
              AllOf(HasSubstr("x[\"a\"] is float32[3]"), HasSubstr("x[\"b\"] is float32[4, 2]")));
  EXPECT_THAT(message(numbers(3), std::nullopt, {.batch_size = 0, .shuffle = true}),
              HasSubstr("batch_size is 0"));
  EXPECT_THAT(message(numbers(3), std::nullopt, {.num_epochs = -1, .shuffle = true}),
              HasSubstr("num_epochs is -1"));
}

}  // namespace
}  // namespace muster::inline v0_1::data
