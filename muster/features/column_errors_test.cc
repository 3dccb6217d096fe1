// Inputs that columns refuse, and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/dense_features.h"
#include "muster/features/internal/test_features.h"
#include "muster/features/linear_model.h"

namespace muster::inline v0_1::feature_column {
namespace {

using testing::dict;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::ragged;
using testing::texts;

struct Refused {
  std::function<void()> call;
  const char* message;
};

void expect_refused(const std::vector<Refused>& cases) {
  for (const Refused& each : cases) {
    std::string message = "nothing was thrown";
    try {
      each.call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_FALSE(error.hint().empty()) << error.what();
      message = error.message();
    }
    EXPECT_THAT(message, HasSubstr(each.message));
  }
}

TEST(BadColumnsTest, Descriptions) {
  const auto age = numeric_column("age");
  const auto city = categorical_column_with_hash_bucket("city", 5);
  const auto two = categorical_column_with_identity("two", 2);
  expect_refused({
      {[] { numeric_column(""); }, "numeric_column: the key is empty"},
      {[] { numeric_column("x", {.shape = {}}); }, "numeric_column of 'x': shape is []"},
      {[] {
         numeric_column("x", {.shape = {2, 0}});
       },
       "shape is [2, 0]"},
      {[] {
         numeric_column("x", {.shape = {3}, .default_value = {1, 2}});
       },
       "default_value has 2 numbers, and shape is [3]"},
      {[] { numeric_column("x", {.default_value = {1.5}, .dtype = kInt64}); },
       "default_value is 1.5, and dtype is int64"},
      {[] { numeric_column("x", {.dtype = at::kBool}); }, "numeric_column of 'x': dtype is bool"},
      {[&] { bucketized_column(city, {1}); },
       "bucketized_column: the column 'city' is not a numeric_column"},
      {[] {
         bucketized_column(numeric_column("x", {.shape = {2, 2}}), {1});
       },
       "bucketized_column: the column 'x' has the shape [2, 2]"},
      {[&] { bucketized_column(age, {}); }, "bucketized_column of 'age': boundaries is empty"},
      {[&] {
         bucketized_column(age, {1, 3, 2});
       },
       "boundaries has 2 after 3"},
      {[&] {
         bucketized_column(age, {1, 1});
       },
       "boundaries has 1 after 1"},
      {[&] { bucketized_column(age, {NAN}); }, "boundaries has a NaN"},
      {[] { categorical_column_with_hash_bucket("", 2); }, "the key is empty"},
      {[] { categorical_column_with_hash_bucket("x", 0); },
       "categorical_column_with_hash_bucket of 'x': hash_bucket_size is 0"},
      {[] { categorical_column_with_hash_bucket("x", 2, {.dtype = kFloat32}); },
       "of 'x': dtype is float32"},
      {[] { categorical_column_with_vocabulary_list("x", std::vector<std::string>()); },
       "categorical_column_with_vocabulary_list of 'x': the vocabulary is empty"},
      {[] {
         categorical_column_with_vocabulary_list("x", {"a", "b", "a"});
       },
       "the vocabulary has 'a' twice, as 0 and 2"},
      {[] {
         categorical_column_with_vocabulary_list("x", {"a", "b"}, {.dtype = kInt64});
       },
       "dtype is int64, and the vocabulary_list has strings"},
      {[] {
         categorical_column_with_vocabulary_list("x", {1, 2}, {.dtype = data::kString});
       },
       "dtype is string, and the vocabulary_list has integers"},
      {[] {
         categorical_column_with_vocabulary_list("x", {"a"},
                                                 {.default_value = 0, .num_oov_buckets = 2});
       },
       "num_oov_buckets is 2, and default_value is 0"},
      {[] { categorical_column_with_vocabulary_list("x", {"a"}, {.num_oov_buckets = -1}); },
       "num_oov_buckets is -1"},
      {[] { categorical_column_with_vocabulary_list("x", {"a"}, {.default_value = 1}); },
       "default_value is 1"},
      {[] { categorical_column_with_identity("x", 0); },
       "categorical_column_with_identity of 'x': num_buckets is 0"},
      {[] { categorical_column_with_identity("x", 3, {.default_value = 3}); },
       "default_value is 3"},
      {[] { categorical_column_with_identity("x", 3, {.default_value = -1}); },
       "default_value is -1"},
      {[&] { weighted_categorical_column(age, "w"); },
       "weighted_categorical_column: the column 'age' is not categorical"},
      {[&] { weighted_categorical_column(city, ""); }, "the key is empty"},
      {[&] { weighted_categorical_column(weighted_categorical_column(city, "v"), "w"); },
       "the column 'city_weighted_by_v' has weights already"},
      {[&] { weighted_categorical_column(city, "w", {.dtype = at::kBool}); },
       "weighted_categorical_column of 'city': dtype is bool"},
      {[] { crossed_column({"a"}, 5); }, "crossed_column: keys has 1 entries"},
      {[] {
         crossed_column({"a", "b"}, 1);
       },
       "crossed_column of 'a_X_b': hash_bucket_size is 1"},
      {[&] {
         crossed_column({"a", city}, 5);
       },
       "the column 'city' has hash buckets"},
      {[&] {
         crossed_column({"a", age}, 5);
       },
       "the column 'age' is not categorical"},
      {[&] {
         crossed_column({"a", weighted_categorical_column(two, "w")}, 5);
       },
       "the column 'two_weighted_by_w' has weights"},
      {[&] { indicator_column(age); }, "indicator_column: the column 'age' is not categorical"},
      {[&] { embedding_column(age, 3); }, "embedding_column: the column 'age' is not categorical"},
      {[&] { embedding_column(city, 0); }, "embedding_column of 'city': dimension is 0"},
      {[&] { embedding_column(city, 2, {.max_norm = 0}); }, "max_norm is 0"},
      {[&] { embedding_column(city, 2, {.ckpt_to_load_from = "x"}); },
       "ckpt_to_load_from is 'x', and tensor_name_in_ckpt ''"},
      {[] { shared_embeddings({}, 2); }, "shared_embeddings: categorical_columns is empty"},
      {[&] {
         shared_embeddings({city, two}, 2);
       },
       "shared_embeddings: the column 'city' has 5 buckets, and 'two' has 2"},
      {[&] { DenseFeatures({}); }, "DenseFeatures: there are no columns"},
      {[&] { DenseFeatures({city}); }, "DenseFeatures: the column 'city' is not dense"},
      {[&] {
         DenseFeatures({age, age});
       },
       "DenseFeatures: two columns are named 'age'"},
      {[&] { LinearModel({}); }, "LinearModel: there are no columns"},
      {[&] {
         LinearModel({city, age, city});
       },
       "LinearModel: two columns are named 'city'"},
      {[&] { LinearModel({age}, {.units = 0}); }, "LinearModel: units is 0"},
      {[&] { (void)age.num_buckets(); }, "the column 'age' is not categorical"},
      {[&] { (void)city.variable_shape(); }, "the column 'city' is not dense"},
  });
}

TEST(BadColumnsTest, VocabularyFiles) {
  const TempDirectory directory;
  std::ofstream(directory / "empty") << "";
  std::ofstream(directory / "two") << "a\nb\n";
  std::ofstream(directory / "twice") << "a\na\n";
  const auto file = [&](const char* name, const VocabularyFileOptions& options = {}) {
    categorical_column_with_vocabulary_file("x", directory / name, options);
  };
  expect_refused({
      {[&] { file("empty"); }, "empty is empty"},
      {[&] { file("two", {.vocabulary_size = 3}); }, "vocabulary_size is 3, and "},
      {[&] { file("two", {.vocabulary_size = 0}); }, "vocabulary_size is 0"},
      {[&] { file("two", {.dtype = kInt64}); }, "two is 'a', and dtype is int64"},
      {[&] { file("two", {.dtype = kFloat32}); }, "dtype is float32"},
      {[&] { file("two", {.default_value = -1, .num_oov_buckets = 1}); },
       "num_oov_buckets is 1, and default_value is -1"},
      {[&] { file("two", {.default_value = 2}); }, "default_value is 2"},
      {[&] { file("twice"); }, "twice' names \"a\" twice, in lines 1 and 2"},
      {[] { categorical_column_with_vocabulary_file("x", ""); }, "vocabulary_file is empty"},
  });
  EXPECT_EQ(error_of([&] { file("missing"); }).kind(), ErrorKind::kNotFound);
}

TEST(BadColumnsTest, Inputs) {
  const auto age = numeric_column("age");
  const auto city = categorical_column_with_hash_bucket("city", 5);
  const auto two = categorical_column_with_identity("two", 2);
  const auto weighted = weighted_categorical_column(two, "w");
  const auto given = [](const FeatureColumn& column, const testing::Entries& entries) {
    return [=] { resolve({column})(Element::dict(entries)); };
  };
  expect_refused({
      {given(city, {{"town", Strings({"a"})}, {"age", floats({1}, {1})}}),
       "the input of the column 'city' has no feature 'city'; it has 'age', 'town'"},
      {[&] { resolve({age})(floats({1}, {1})); }, "these have none: float32[1]"},
      {given(age, {{"age", Strings({"a"})}}), "the column 'age': its feature is string[1]"},
      {given(age, {{"age", floats({1, 2}, {1, 2})}}),
       "the column 'age': its feature is float32[1, 2], and its shape [1]"},
      {[&] {
         resolve({age})(dict({ragged<float>("age", {{1}, {2}})}));
       },
       "the column 'age': a numeric_column takes as many numbers of each example"},
      {given(age, {{"age", torch::tensor(1.0f)}}), "its feature 'age' is float32[]"},
      {given(numeric_column("age", {.normalizer_fn = [](const Tensor& x) { return x.sum(); }}),
             {{"age", floats({1}, {1})}}),
       "the column 'age': normalizer_fn was given float32[1, 1], and gave float32[]"},
      {given(city, {{"city", ints({1}, {1})}}),
       "the column 'city' takes strings, and its feature 'city' is int64[1]"},
      {given(two, {{"two", Strings({"a"})}}),
       "the column 'two' takes integers, and its feature 'two' is string[1]"},
      {given(two, {{"two", floats({1}, {1})}}),
       "the column 'two' takes integers, and its feature 'two' is float32[1]"},
      {given(two, {{"two", ints({1}, {1, 1, 1})}}), "its feature 'two' is int64[1, 1, 1]"},
      {given(two, {{"two", ints({0, 1, 2, 0}, {2, 2})}}),
       "the column 'two': the value 2, number 2 of the batch, is outside of its 2 buckets"},
      {given(two, {{"two", ints({0, 1}, {2})}, {"two/row_lengths", ints({1}, {1})}}),
       "the lengths 'two/row_lengths' are int64[1], and there are 2 rows"},
      {given(two, {{"two", ints({0, 1}, {2})}, {"two/row_lengths", ints({1, 2}, {2})}}),
       "the lengths 'two/row_lengths' say 2 in row 1, and a row has 1 values"},
      {given(two, {{"two", ints({0, 1}, {2})}, {"two/row_lengths", ints({-1, 1}, {2})}}),
       "the lengths 'two/row_lengths' say -1 in row 0, and a row has 1 values"},
      {given(weighted, {{"two", ints({0, 1}, {2})}}), "has no feature 'w'"},
      {given(weighted, {{"two", ints({0, 1}, {2})}, {"w", floats({1, 2}, {1, 2})}}),
       "its weights 'w' are float32[1, 2], and its ids int64[2, 1]"},
      {given(weighted, {{"two", ints({0, 1}, {2})}, {"w", Strings({"a", "b"})}}),
       "its weights 'w' are string[2]"},
      {[&] {
         resolve({weighted})(
             dict({ragged<int64_t>("two", {{0, 1}, {1}}), ragged<float>("w", {{1}, {1, 2}})}));
       },
       "the column 'two_weighted_by_w': row 0 has 2 values and 1 weights 'w'"},
      {given(crossed_column({"a", "b"}, 5), {{"a", Strings({"x"})}, {"b", Strings({"x", "y"})}}),
       "the column 'a_X_b': 'a' has 1 rows, and 'b' has 2"},
      {given(crossed_column({"a", "b"}, 5),
             {{"a", texts(std::vector<std::string>(2000, "x"), {1, 2000})},
              {"b", texts(std::vector<std::string>(2000, "y"), {1, 2000})}}),
       "the column 'a_X_b': row 0 has more than 1048576 combinations"},
      {given(crossed_column({"a", "b"}, 5), {{"a", Strings({"x"})}, {"b", floats({1}, {1})}}),
       "the column 'a_X_b': its feature 'b' is float32[1]"},
  });
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
