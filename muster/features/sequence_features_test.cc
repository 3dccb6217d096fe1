// Columns of sequences, and the layer that takes them.
#include "muster/features/sequence_features.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/dense_features.h"
#include "muster/features/internal/test_features.h"
#include "muster/features/linear_model.h"
#include "muster/features/parse_spec.h"
#include "muster/features/sequence_column.h"
#include "muster/layers/dense.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/sequential.h"

namespace muster::inline v0_1::feature_column {
namespace {

using testing::Calls;
using testing::dict;
using testing::expect_close;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::ragged;
using testing::texts;

const FeatureColumn kSteps = sequence_categorical_column_with_identity("w", 3);
const std::string kStepsTable = "sequence_features/w_embedding/embedding_weights";

// The reference has this example: the ids of two steps, [[1], [0, 2]], give [[3, 5], [4, 6.5]].
TEST(SequenceFeaturesTest, IdsInsideOfAStepAreCombined) {
  Calls calls;
  calls.store.set[kStepsTable] = floats({1, 2, 3, 5, 7, 11}, {3, 2});
  const Features features(Element::dict({{"w", ints({1, -1, 0, 2, -1, -1, -1, -1}, {2, 2, 2})}}));
  const auto given = SequenceFeatures({embedding_column(kSteps, 2)})(features, calls.context);
  expect_equal(given.values.detach(), floats({3, 5, 4, 6.5, 0, 0, 0, 0}, {2, 2, 2}));
  expect_equal(given.lengths, ints({2, 0}, {2}));
  EXPECT_EQ(calls.store.find(kStepsTable)->row_uses().size(), 1u);
  expect_equal(calls.store.find(kStepsTable)->row_uses()[0].ids, ints({0, 1, 2}, {3}));
}

TEST(SequenceFeaturesTest, ASequenceEndsWithItsLastValue) {
  const auto words = sequence_categorical_column_with_vocabulary_list("w", {"a", "b"});
  const Element dense = resolve({words})(
      Element::dict({{"w", texts({"a", "", "b", "", "x", "", "", "", "", "", "", ""}, {3, 4})}}));
  expect_equal(dense.at("w/ids").value().tensor(),
               ints({0, -1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, {3, 4, 1}));
  // An unknown word is one.
  expect_equal(dense.at("w/lengths").value().tensor(), ints({3, 1, 0}, {3}));
  const Element lengths =
      resolve({words})(dict({ragged<std::string>("w", {{"b", ""}, {}, {"a", "b", "a"}})}));
  expect_equal(lengths.at("w/ids").value().tensor(),
               ints({1, -1, -1, -1, -1, -1, 0, 1, 0}, {3, 3, 1}));
  expect_equal(lengths.at("w/lengths").value().tensor(), ints({2, 0, 3}, {3}));
}

TEST(SequenceFeaturesTest, NumbersOfSteps) {
  const auto pairs = sequence_numeric_column("x", {.shape = {2}, .default_value = -1});
  const Element given =
      resolve({pairs})(dict({ragged<float>("x", {{1, 2, 3, 4}, {5, 6}, {}, {7, 8, 9}})}));
  expect_equal(given.at("x/values").value().tensor(),
               floats({1, 2, 3, 4, 5, 6, -1, -1, -1, -1, -1, -1, 7, 8, 9, -1}, {4, 2, 2}));
  expect_equal(given.at("x/lengths").value().tensor(), ints({2, 1, 0, 2}, {4}));
  const auto half =
      sequence_numeric_column("x", {.normalizer_fn = [](const Tensor& x) { return x / 2; }});
  // What lies after the end of a row is not a number of the feature.
  const Element padded = resolve({half})(dict({ragged<float>("x", {{1, 2, 3}, {5}})}));
  expect_equal(padded.at("x/values").value().tensor(), floats({0.5, 1, 1.5, 2.5, 0, 0}, {2, 3, 1}));
  const auto shifted = sequence_numeric_column(
      "x", {.default_value = -1, .normalizer_fn = [](const Tensor& x) { return x + 2; }});
  expect_equal(resolve({shifted})(dict({ragged<float>("x", {{1, 2, 3}, {5}})}))
                   .at("x/values")
                   .value()
                   .tensor(),
               floats({3, 4, 5, 7, -1, -1}, {2, 3, 1}));
  const Element dense = resolve({half})(Element::dict({{"x", ints({2, 4, 6, 8}, {2, 2})}}));
  expect_equal(dense.at("x/values").value().tensor(), floats({1, 2, 3, 4}, {2, 2, 1}));
  expect_equal(dense.at("x/lengths").value().tensor(), ints({2, 2}, {2}));
}

TEST(SequenceFeaturesTest, EachStepIsWhatItWouldBeAlone) {
  const auto hashed = sequence_categorical_column_with_hash_bucket("w", 20);
  const auto x = sequence_numeric_column("x");
  const SequenceFeatures layer({indicator_column(hashed), x, embedding_column(hashed, 3)});
  const Element batch = dict(
      {ragged<std::string>("w", {{"a", "b", "c"}, {"d"}}), ragged<float>("x", {{1, 2, 3}, {4}})});
  Calls calls;
  const auto given = layer(Features(resolve({hashed, x})(batch)), calls.context);
  EXPECT_EQ(describe(given.values), "float32[2, 3, 24]");
  const auto word = categorical_column_with_hash_bucket("w", 20);
  const DenseFeatures alone(
      {indicator_column(word), numeric_column("x"), embedding_column(word, 3)});
  calls.store.set["dense_features/w_embedding/embedding_weights"] = calls.store.value(kStepsTable);
  const Tensor steps = alone(Features(Element::dict({{"w", Strings({"a", "b", "c", "d"})},
                                                     {"x", floats({1, 2, 3, 4}, {4})}})),
                             calls.context);
  expect_close(given.values[0].detach(), steps.slice(0, 0, 3).detach());
  expect_close(given.values[1][0].detach(), steps[3].detach());
  expect_equal(given.values[1].slice(0, 1).detach(), torch::zeros({2, 24}));
}

TEST(SequenceFeaturesTest, RecurrentLayersReadThemByTheirLengths) {
  const SequenceFeatures input({embedding_column(kSteps, 4)});
  const Layer net = Sequential({input, LSTM(5), Dense(2)});
  Calls calls;
  const Features both(dict({ragged<int64_t>("w", {{1, 0, 2}, {2}})}));
  const Features one(dict({ragged<int64_t>("w", {{2}})}));
  const Tensor all = net(input.inputs(both), calls.context).tensors[0];
  const Tensor alone = net(input.inputs(one), calls.context).tensors[0];
  EXPECT_EQ(describe(all), "float32[2, 2]");
  expect_close(all[1].detach(), alone[0].detach());
}

TEST(SequenceFeaturesTest, WhatHoldsForAnExampleJoinsEachStep) {
  expect_equal(concatenate_context_input(floats({1, 2}, {2, 1}), floats({3, 4, 5, 6}, {2, 2, 1})),
               floats({3, 1, 4, 1, 5, 2, 6, 2}, {2, 2, 2}));
  EXPECT_THAT(message_of([] {
                concatenate_context_input(floats({1}, {1}), floats({3}, {1, 1, 1}));
              }),
              HasSubstr("context_input is float32[1], and sequence_input float32[1, 1, 1]"));
}

TEST(SequenceFeaturesTest, FilesHoldAnyNumberOfSteps) {
  const auto spec = make_parse_example_spec(
      {sequence_numeric_column("x", {.dtype = kInt64}), embedding_column(kSteps, 2)});
  EXPECT_EQ(std::get<data::VarLenFeature>(spec.at("x")).dtype, data::FeatureDType(kInt64));
  EXPECT_EQ(std::get<data::VarLenFeature>(spec.at("w")).dtype, data::FeatureDType(kInt64));
}

TEST(SequenceFeaturesTest, WhatDoesNotFitIsRefused) {
  const auto x = sequence_numeric_column("x");
  const auto age = numeric_column("age");
  const auto refused = [](const std::function<void()>& call) { return message_of(call); };
  EXPECT_EQ(refused([&] {
              SequenceFeatures({x, age});
            }),
            "SequenceFeatures: the column 'age' is not a sequence");
  EXPECT_EQ(refused([&] { SequenceFeatures({kSteps}); }),
            "SequenceFeatures: the column 'w' is not dense");
  EXPECT_EQ(refused([&] { SequenceFeatures({}); }), "SequenceFeatures: there are no columns");
  EXPECT_EQ(refused([&] {
              DenseFeatures({indicator_column(kSteps), age});
            }),
            "DenseFeatures: the column 'w_indicator' is one of sequences");
  EXPECT_EQ(refused([&] { LinearModel({kSteps}); }),
            "LinearModel: the column 'w' is one of sequences");
  EXPECT_EQ(refused([&] {
              crossed_column({kSteps, "b"}, 5);
            }),
            "crossed_column: the column 'w' is one of sequences");
  EXPECT_EQ(refused([&] { weighted_categorical_column(kSteps, "b"); }),
            "weighted_categorical_column: the column 'w' is one of sequences");
  EXPECT_THAT(refused([&] { bucketized_column(x, {1}); }), HasSubstr("is not a numeric_column"));
  EXPECT_EQ(refused([] { sequence_numeric_column("x", {.shape = {0}}); }),
            "sequence_numeric_column of 'x': shape is [0]");
  EXPECT_THAT(refused([&] {
                resolve({kSteps})(Element::dict({{"w", ints({1}, {1})}}));
              }),
              HasSubstr("the column 'w': its feature is int64[1]"));
  EXPECT_THAT(refused([&] {
                resolve({x})(Element::dict({{"x", Strings({"a"})}}));
              }),
              HasSubstr("the column 'x': its feature is string[1], and the shape of a step [1]"));
  EXPECT_THAT(refused([&] {
                resolve({x})(Element::dict({{"x", floats({1, 2}, {1, 1, 2})}}));
              }),
              HasSubstr("its feature is float32[1, 1, 2], and the shape of a step [1]"));
  EXPECT_THAT(refused([&] {
                Calls calls;
                SequenceFeatures({x, indicator_column(kSteps)})(
                    Features(dict({ragged<float>("x", {{1, 2}, {3}}),
                                   ragged<int64_t>("w", {{1, 2}, {0, 1}})})),
                    calls.context);
              }),
              HasSubstr("the sequences of the columns 'w_indicator' and 'x' are not equally long"));
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
