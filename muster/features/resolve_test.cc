// What columns read, and what resolve() gives for it.
#include "muster/features/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "muster/base/error_of.h"
#include "muster/base/hash.h"
#include "muster/base/temp_directory.h"
#include "muster/data/dataset.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/dense_features.h"
#include "muster/features/internal/test_features.h"

namespace muster::inline v0_1::feature_column {
namespace {

using testing::dict;
using ::testing::ElementsAre;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ids_of;
using testing::ints;
using testing::ragged;
using testing::texts;

TEST(ResolveTest, NumbersAreCastShapedAndNormalized) {
  const auto age = numeric_column("age");
  const auto place = numeric_column(
      "place", {.shape = {2}, .normalizer_fn = [](const Tensor& x) { return (x - 1) / 2; }});
  const Element batch =
      Element::dict({{"age", ints({20, 30}, {2})}, {"place", floats({1, 3, 5, 7}, {2, 2})}});
  const Element resolved = resolve({age, place})(batch);
  EXPECT_THAT(resolved.structure().keys, ElementsAre("age", "age/values", "place", "place/values"));
  expect_equal(resolved.at("age/values").value().tensor(), floats({20, 30}, {2, 1}));
  expect_equal(resolved.at("place/values").value().tensor(), floats({0, 1, 2, 3}, {2, 2}));
}

TEST(ResolveTest, BucketsAreHalfOpen) {
  const auto x = bucketized_column(numeric_column("x", {.shape = {2}}), {0, 10});
  EXPECT_EQ(x.name(), "x_bucketized");
  EXPECT_EQ(x.num_buckets(), 6);
  EXPECT_EQ(x.variable_shape(), (Shape{2, 3}));
  const Element batch = Element::dict({{"x", floats({-0.5, 0, 9.5, 10, 1e9, -1e9}, {3, 2})}});
  expect_equal(ids_of(x, batch), ints({0, 4, 1, 5, 2, 3}, {3, 2}));
}

// 20180131 is not float32: rounded, it is the day before the last of January.
TEST(ResolveTest, LargeNumbersAreExactUntilTheyAreSmall) {
  const Element batch = Element::dict({{"day", ints({20180131, 20180132}, {2})}});
  const auto first = [](const Tensor& day) { return day - 20180101; };
  ::testing::internal::CaptureStderr();
  const auto near = numeric_column("day", {.dtype = kInt64, .normalizer_fn = first});
  expect_equal(resolve({near})(batch).at("day/values").value().tensor(), floats({30, 31}, {2, 1}));
  const auto cut =
      bucketized_column(numeric_column("day", {.dtype = kInt64}), {20180131, 20180132, 20180133});
  expect_equal(ids_of(cut, batch), ints({1, 2}, {2, 1}));
  const auto city = bucketized_column(numeric_column("small"), {1, 2});
  expect_equal(ids_of(city, Element::dict({{"small", ints({1, 16777216}, {2})}})),
               ints({1, 2}, {2, 1}));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  // As they are they become floats, which is told, and so is a dtype that rounds requests.
  ::testing::internal::CaptureStderr();
  const auto plain = numeric_column("day");
  resolve({plain})(batch);
  ids_of(bucketized_column(plain, {20180131}), batch);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("'day' converts numbers above 16,777,216 to float32"));
  EXPECT_THAT(told, HasSubstr("its dtype is float32: the exported model would round them"));
}

TEST(ResolveTest, EmptyTextsAndMinusOneAreMissingUnlessLengthsSayOtherwise) {
  const auto city = categorical_column_with_vocabulary_list("city", {"Bern", "Oslo"});
  expect_equal(ids_of(city, Element::dict({{"city", texts({"Oslo", "", "Rome", "Bern"}, {2, 2})}})),
               ints({1, -1, -1, 0}, {2, 2}));
  const auto number = categorical_column_with_hash_bucket("n", 1, {.dtype = kInt64});
  expect_equal(ids_of(number, Element::dict({{"n", ints({-1, 7}, {2})}})), ints({-1, 0}, {2, 1}));
  expect_equal(ids_of(number, dict({ragged<int64_t>("n", {{-1, 7}, {}, {3}})})),
               ints({0, 0, -1, -1, 0, -1}, {3, 2}));
  const auto text = categorical_column_with_hash_bucket("t", 1);
  expect_equal(ids_of(text, dict({ragged<std::string>("t", {{""}, {"a", ""}})})),
               ints({0, -1, 0, 0}, {2, 2}));
}

TEST(ResolveTest, IntegersAreHashedAsTheirDigits) {
  const auto column = categorical_column_with_hash_bucket("n", 1000, {.dtype = kInt64});
  const std::vector<int64_t> numbers{0, 42, -17, int64_t{1} << 40};
  const Tensor ids =
      ids_of(column, Element::dict({{"n", torch::tensor(numbers, kInt64)}})).flatten();
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_EQ(ids[static_cast<int64_t>(i)].item<int64_t>(),
              static_cast<int64_t>(fingerprint64(std::to_string(numbers[i])) % 1000));
  }
}

TEST(ResolveTest, UnknownIntegersOfAVocabulary) {
  // The reference says so of 100, next to a vocabulary of 5.
  const auto column =
      categorical_column_with_vocabulary_list("n", {11, 22, 33, 44, 55}, {.num_oov_buckets = 100});
  EXPECT_EQ(column.num_buckets(), 105);
  expect_equal(ids_of(column, Element::dict({{"n", ints({22, 100, -1}, {3})}})),
               ints({1, 60, -1}, {3, 1}));
  const auto other = categorical_column_with_vocabulary_list("n", {11, 22}, {.default_value = 1});
  expect_equal(ids_of(other, Element::dict({{"n", ints({11, 100}, {2})}})), ints({0, 1}, {2, 1}));
}

TEST(ResolveTest, VocabularyFiles) {
  const TempDirectory directory;
  std::ofstream(directory / "words") << "Bern\nOslo\nRome\n";
  std::ofstream(directory / "numbers") << "30\n10\n020\n";
  const Element batch =
      Element::dict({{"city", Strings({"Rome", "Oslo", "Kyiv"})}, {"n", ints({10, 20, 99}, {3})}});
  const auto all = categorical_column_with_vocabulary_file("city", directory / "words");
  EXPECT_EQ(all.num_buckets(), 3);
  expect_equal(ids_of(all, batch), ints({2, 1, -1}, {3, 1}));
  const auto two = categorical_column_with_vocabulary_file(
      "city", directory / "words", {.vocabulary_size = 2, .num_oov_buckets = 1});
  expect_equal(ids_of(two, batch), ints({2, 1, 2}, {3, 1}));
  const auto numbers = categorical_column_with_vocabulary_file(
      "n", directory / "numbers", {.dtype = kInt64, .default_value = 0});
  expect_equal(ids_of(numbers, batch), ints({1, 2, 0}, {3, 1}));
}

TEST(ResolveTest, IdsAndWeightsStayTogether) {
  const auto words = categorical_column_with_identity("w", 10);
  const auto weighted = weighted_categorical_column(words, "f");
  EXPECT_EQ(weighted.name(), "w_weighted_by_f");
  const Element dense = resolve({weighted})(
      Element::dict({{"w", ints({3, 4, 5, -1}, {2, 2})}, {"f", floats({0.5, 0, 2, 0}, {2, 2})}}));
  expect_equal(dense.at("w_weighted_by_f/ids").value().tensor(), ints({3, -1, 5, -1}, {2, 2}));
  expect_equal(dense.at("w_weighted_by_f/weights").value().tensor(),
               floats({0.5, 0, 2, 0}, {2, 2}));
  // With lengths a weight of 0 is one.
  const Element lengths = resolve({weighted})(
      dict({ragged<int64_t>("w", {{3, 4}, {5}}), ragged<float>("f", {{0.5f, 0}, {2}})}));
  expect_equal(lengths.at("w_weighted_by_f/ids").value().tensor(), ints({3, 4, 5, -1}, {2, 2}));
}

// The formula once more, apart from the column's own.
uint64_t cat(uint64_t a, uint64_t b) {
  const uint64_t m = 0xc6a4a7935bd1e995u;
  uint64_t mixed = b * m;
  mixed = (mixed ^ (mixed >> 47)) * m;
  uint64_t r = ((a ^ m) ^ mixed) * m;
  r = (r ^ (r >> 47)) * m;
  return r ^ (r >> 47);
}

TEST(ResolveTest, CrossesAreEveryCombinationOfARow) {
  const auto crossed = crossed_column({"x", "y"}, 1000);
  EXPECT_EQ(crossed.name(), "x_X_y");
  const Element batch = dict({ragged<std::string>("x", {{"a", "b"}, {}, {"c"}}),
                              ragged<int64_t>("y", {{1, -1}, {5}, {7}})});
  const auto id = [](const std::string& x, int64_t y) {
    return static_cast<int64_t>(cat(cat(0xDECAFCAFFE, fingerprint64(x)), static_cast<uint64_t>(y)) %
                                1000);
  };
  expect_equal(ids_of(crossed, batch), ints({id("a", 1), id("a", -1), id("b", 1), id("b", -1), -1,
                                             -1, -1, -1, id("c", 7), -1, -1, -1},
                                            {3, 4}));
  // All values of a dense feature count, "" among them.
  const Element dense = Element::dict({{"x", Strings({"", "c"})}, {"y", ints({-1, 7}, {2})}});
  expect_equal(ids_of(crossed, dense), ints({id("", -1), id("c", 7)}, {2, 1}));
}

// Numbers of tf.feature_column's own test: the ids and, with the weights 1 to 5, their sums.
TEST(ResolveTest, ACrossOfBucketsAndTextsHasTheIdsItHasThere) {
  const auto a = bucketized_column(numeric_column("a", {.shape = {2}, .dtype = kInt64}), {0, 1});
  const auto crossed = crossed_column({a, "c"}, 5, {.hash_key = 5});
  const Element batch = dict({{{"a", floats({-1, 0.5, 0.5, 1}, {2, 2})}},
                              ragged<std::string>("c", {{"cA"}, {"cB", "cC"}})});
  const Tensor ids = ids_of(crossed, batch);
  expect_equal(ids, ints({1, 0, -1, -1, 1, 3, 4, 2}, {2, 4}));
  const Tensor weights = floats({0, 1, 2, 3, 4, 5}, {6});
  expect_equal(weights.index_select(0, ids.flatten() + 1).reshape({2, 4}).sum(1),
               floats({3, 14}, {2}));
}

TEST(ResolveTest, ANestedCrossIsThatOfItsKeys) {
  const Element batch = Element::dict(
      {{"a", Strings({"p", "q"})}, {"b", Strings({"r", "s"})}, {"c", ints({1, 2}, {2})}});
  const auto c = categorical_column_with_identity("c", 3);
  const auto nested = crossed_column({"a", crossed_column({"b", c}, 7)}, 500);
  const auto flat = crossed_column({"a", "b", c}, 500);
  EXPECT_EQ(nested.name(), "a_X_b_X_c");
  expect_equal(ids_of(nested, batch), ids_of(flat, batch));
  // The order of the keys matters, and the name does not show it.
  EXPECT_FALSE(ids_of(crossed_column({c, "b", "a"}, 500), batch).equal(ids_of(flat, batch)));
}

TEST(ResolveTest, TextsThatWereReadAreLeftOutAndAllElseIsKept) {
  const auto city = categorical_column_with_hash_bucket("city", 5);
  const auto transform = resolve({embedding_column(city, 2), indicator_column(city)});
  const Element batch = Element::tuple({Element::dict({{"city", Strings({"Oslo", "Bern"})},
                                                       {"id", Strings({"1", "2"})},
                                                       {"weight", floats({1, 2}, {2})}}),
                                        ints({0, 1}, {2})});
  const Element once = transform(batch);
  EXPECT_EQ(once.describe(),
            "({city/ids: int64[2, 1], id: string[2], weight: float32[2]}, int64[2])");
  EXPECT_EQ(transform(once).describe(), once.describe());
}

TEST(ResolveTest, RowsDoNotKnowOfEachOther) {
  const std::vector<FeatureColumn> columns{
      bucketized_column(numeric_column("age"), {18, 65}), crossed_column({"city", "job"}, 100),
      weighted_categorical_column(categorical_column_with_hash_bucket("city", 30), "share")};
  const Dataset rows = Dataset::from_tensor_slices(
      Element::dict({{"age", floats({10, 20, 70, 40, 18}, {5})},
                     {"city", texts({"a", "b", "", "c", "d", "", "e", "f", "g", "a"}, {5, 2})},
                     {"job", Strings({"x", "y", "z", "x", "y"})},
                     {"share", floats({1, 2, 3, 4, 5, 6, 7, 8, 9, 1}, {5, 2})}}));
  const auto all = rows.batch(5).map(resolve(columns)).iterator();
  std::optional<Element> whole;
  ASSERT_TRUE(whole = all->next());
  const auto parts = rows.batch(2).map(resolve(columns)).iterator();
  std::optional<Element> part;
  for (int64_t at = 0; part = parts->next(); at += part->rows()) {
    for (size_t i = 0; i < whole->values().size(); ++i) {
      if (!whole->values()[i].is_tensor()) continue;
      expect_equal(part->values()[i].tensor(),
                   whole->values()[i].slice(at, at + part->rows()).tensor());
    }
  }
  // A replica may have no rows.
  const auto third = rows.take(2)
                         .batch(2)
                         .map(resolve(columns))
                         .iterator({.sharding = {.num_replicas = 3, .replica = 2}});
  ASSERT_TRUE(part = third->next());
  EXPECT_EQ(part->rows(), 0);
  EXPECT_EQ(part->at("age_bucketized/ids").value().describe(), "int64[0, 1]");
  EXPECT_EQ(part->at("city_X_job/ids").value().rows(), 0);
}

// Ids are looked up once, however many epochs there are.
TEST(ResolveTest, WhatWasResolvedCanBeCached) {
  std::atomic<int> calls = 0;
  const std::vector<FeatureColumn> columns{
      numeric_column("x", {.normalizer_fn =
                               [&](const Tensor& x) {
                                 ++calls;
                                 return x + 1;
                               }}),
      categorical_column_with_vocabulary_list("city", {"Bern", "Oslo"})};
  const Dataset rows = Dataset::from_tensor_slices(
      Element::dict({{"x", floats({1, 2, 3, 4, 5}, {5})},
                     {"city", Strings({"Oslo", "Rome", "Bern", "Oslo", "Bern"})}}));
  const auto iterator = rows.batch(2).map(resolve(columns)).cache().repeat(3).iterator();
  std::vector<Element> batches;
  while (const auto batch = iterator->next()) batches.push_back(*batch);
  ASSERT_EQ(batches.size(), 9u);
  EXPECT_EQ(calls, 3);
  for (size_t i = 3; i < batches.size(); ++i) {
    for (const char* key : {"x/values", "city/ids"}) {
      expect_equal(batches[i].at(key).value().tensor(), batches[i - 3].at(key).value().tensor());
    }
  }
}

// As in TensorFlow, any number below 0 is none.
TEST(ResolveTest, AnUnknownValueMayHaveAnyIdBelowZero) {
  const auto n =
      categorical_column_with_vocabulary_list("n", {30, 35, 11, 23, 22}, {.default_value = -100});
  const Element given = resolve({n})(Element::dict({{"n", ints({11, 100, 30, 22}, {2, 2})}}));
  expect_equal(given.at("n/ids").value().tensor(), ints({2, -1, 0, 4}, {2, 2}));
}

// As an exported model does, which is asked with numbers as they are.
TEST(ResolveTest, ALayerComputesOfNumbersAndIdsWhatItComputesOfAllThatWasResolved) {
  const auto years = numeric_column(
      "age", {.normalizer_fn = [](const Tensor& numbers) { return (numbers - 40) / 10; }});
  const auto town = categorical_column_with_identity("city", 4);
  const std::vector<FeatureColumn> columns{
      years, bucketized_column(numeric_column("age"), {18, 65}), indicator_column(town),
      embedding_column(weighted_categorical_column(town, "share"), 3)};
  const Element batch = Element::dict({{"age", floats({10, 30, 70}, {3})},
                                       {"city", ints({3, 0, 2}, {3})},
                                       {"share", floats({1, 2, 0.5}, {3})}});
  const Element resolved = resolve(columns)(batch);
  std::vector<std::pair<std::string, Element>> asked{{"age", batch.at("age")}};
  for (const FeatureColumn& column : columns) {
    const ResolvedColumn made = resolved_column(column);
    EXPECT_FALSE(made.gives_sequences || made.crosses);
    if (made.is_dense) continue;
    for (const auto& [key, dtype] : made.entries) {
      if (key == "city/ids" && column.name() != "city_indicator") continue;
      asked.emplace_back(key, resolved.at(key));
      EXPECT_EQ(resolved.at(key).value().tensor().scalar_type(), dtype) << key;
    }
  }
  EXPECT_EQ(asked.size(), 4u);
  testing::Calls calls;
  const DenseFeatures layer(columns);
  expect_equal(layer(Features(Element::dict(std::move(asked))), calls.context),
               layer(Features(resolved), calls.context));
}

TEST(ResolveTest, TwoWaysToReadOneNameAreRefused) {
  const auto small = categorical_column_with_hash_bucket("city", 5);
  const auto large = categorical_column_with_hash_bucket("city", 50);
  EXPECT_NO_THROW(resolve({small, categorical_column_with_hash_bucket("city", 5)}));
  EXPECT_EQ(message_of([&] {
              resolve({indicator_column(small), embedding_column(large, 2)});
            }),
            "resolve: two columns are named 'city', and one gives 5 hash buckets of string, the "
            "other 50 hash buckets of string");
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
