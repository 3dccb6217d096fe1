// Values that prepare features, as a program uses them: adapted once, called in map().
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/preprocessing/category_encoding.h"
#include "muster/preprocessing/discretization.h"
#include "muster/preprocessing/hashing.h"
#include "muster/preprocessing/internal/test_calls.h"
#include "muster/preprocessing/normalization.h"
#include "muster/preprocessing/string_lookup.h"

namespace muster::inline v0_1 {
namespace {

using testing::expect_close;
using testing::expect_equal;
using testing::floats;

Dataset passengers() {
  return Dataset::from_tensor_slices(
      Element::dict({{"age", floats({20, 40, 30, 30}, {4, 1})},
                     {"city", Strings({"Oslo", "Rome", "Oslo", "Bern"})}}));
}

// Learns from the training data once, and returns the same examples as numbers only.
Dataset prepare(const Dataset& examples) {
  const auto column = [&](const char* name) {
    return examples.batch(1000).map([name](const Element& batch) { return batch.at(name); });
  };
  const Normalization age = Normalization().adapt(column("age"));
  const StringLookup city =
      StringLookup({.output_mode = OutputMode::kOneHot}).adapt(column("city"));
  return examples.batch(2).map([=](const Element& batch) {
    return Element::dict({{"age", age(batch.at("age").value().tensor())},
                          {"city", city(batch.at("city").value().strings())}});
  });
}

TEST(PipelineTest, FeaturesBecomeNumbers) {
  const auto iterator = prepare(passengers()).iterator();
  std::optional<Element> batch;
  ASSERT_TRUE(batch = iterator->next());
  // The mean is 30, the variance 50.
  expect_close(batch->at("age").value().tensor(), floats({-1.4142135, 1.4142135}, {2, 1}));
  // Unknown, Oslo, Rome, Bern: the most frequent first, then the last in the order of bytes.
  expect_equal(batch->at("city").value().tensor(), floats({0, 1, 0, 0, 0, 0, 1, 0}, {2, 4}));
  ASSERT_TRUE(batch = iterator->next());
  expect_equal(batch->at("city").value().tensor(), floats({0, 1, 0, 0, 0, 0, 0, 1}, {2, 4}));
}

// Under sharding a map sees batches of zero rows too, and before batch() scalars.
TEST(PipelineTest, WorksOnBatchesWithoutRowsAndOnSingleElements) {
  const Hashing hash(5, {.output_mode = OutputMode::kMultiHot});
  const Discretization bins({.bin_boundaries = {25}, .output_mode = OutputMode::kOneHot});
  const auto both = [=](const Element& e) {
    return Element::dict({{"age", bins(e.at("age").value().tensor())},
                          {"city", hash(e.at("city").value().strings())}});
  };
  const auto third =
      passengers().batch(2).map(both).iterator({.sharding = {.num_replicas = 3, .replica = 2}});
  std::optional<Element> batch;
  ASSERT_TRUE(batch = third->next());
  EXPECT_EQ(batch->at("age").value().tensor().sizes(), at::IntArrayRef({0, 2}));
  const auto single = passengers().map(both).iterator();
  ASSERT_TRUE(batch = single->next());
  expect_equal(batch->at("age").value().tensor(), floats({1, 0}, {1, 2}));
  expect_close(batch->at("city").value().tensor().sum(), torch::tensor(1.0f));
}

}  // namespace
}  // namespace muster::inline v0_1
