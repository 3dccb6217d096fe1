#include "muster/features/serving_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/dense_features.h"
#include "muster/features/internal/test_features.h"
#include "muster/features/sequence_column.h"

namespace muster::inline v0_1::feature_column {
namespace {

using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;

const FeatureColumn kYears = numeric_column(
    "age", {.normalizer_fn = [](const Tensor& numbers) { return (numbers - 40) / 10; }});
const FeatureColumn kAgeBuckets = bucketized_column(numeric_column("age"), {18, 65});
const FeatureColumn kTown = categorical_column_with_identity("city", 4);
const FeatureColumn kTownShares = weighted_categorical_column(kTown, "share");

std::map<std::string, std::string> described(const std::vector<FeatureColumn>& columns) {
  std::map<std::string, std::string> all;
  for (const auto& [name, feature] : serving_input_receiver(columns).features)
    all[name] = dtype_name(feature.dtype) + describe(feature.shape);
  return all;
}

TEST(ServingInputTest, NumbersByTheirKeysAndCategoriesByTheirIds) {
  EXPECT_EQ(
      described({kYears, kAgeBuckets, numeric_column("place", {.shape = {2, 3}, .dtype = kInt64}),
                 indicator_column(kTown), embedding_column(kTown, 3), indicator_column(kTownShares),
                 crossed_column({kAgeBuckets, "job"}, 10)}),
      (std::map<std::string, std::string>{{"age", "float32[1]"},
                                          {"place", "int64[2, 3]"},
                                          {"city/ids", "int64[1]"},
                                          {"city_weighted_by_share/ids", "int64[1]"},
                                          {"city_weighted_by_share/weights", "float32[1]"},
                                          {"age_bucketized_X_job/ids", "int64[1]"}}));
}

TEST(ServingInputTest, ALayerComputesOfThemWhatItComputesOfWhatWasResolved) {
  const std::vector<FeatureColumn> columns{kYears, kAgeBuckets, indicator_column(kTown),
                                           embedding_column(kTownShares, 3)};
  const Element batch = Element::dict({{"age", floats({10, 30, 70}, {3})},
                                       {"city", ints({3, 0, 2}, {3})},
                                       {"share", floats({1, 2, 0.5}, {3})}});
  const Element resolved = resolve(columns)(batch);
  std::vector<std::pair<std::string, Element>> asked;
  for (const auto& [name, feature] : serving_input_receiver(columns).features) {
    asked.emplace_back(name, name == "age" ? batch.at(name) : resolved.at(name));
    Shape shape = feature.shape;
    shape.insert(shape.begin(), 3);
    EXPECT_EQ(resolved.at(name).value().rows(), 3);
    if (name != "age") EXPECT_EQ(resolved.at(name).value().tensor().sizes().vec(), shape) << name;
  }
  testing::Calls calls;
  const DenseFeatures layer(columns);
  expect_equal(layer(Features(Element::dict(std::move(asked))), calls.context),
               layer(Features(resolved), calls.context));
}

TEST(ServingInputTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(
      error_of([] {
        serving_input_receiver(
            {indicator_column(sequence_categorical_column_with_identity("clicks", 5))});
      }).what(),
      HasSubstr("serving_input_receiver: the column 'clicks_indicator' is one of sequences"));
  EXPECT_THAT(error_of([] {
                serving_input_receiver({kAgeBuckets, numeric_column("age", {.shape = {2}})});
              }).what(),
              HasSubstr("'age'"));
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
