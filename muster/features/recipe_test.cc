#include "muster/features/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/internal/test_features.h"
#include "muster/features/sequence_column.h"

namespace muster::inline v0_1::feature_column {
namespace {

using testing::floats;
using ::testing::HasSubstr;
using testing::ints;
using testing::texts;

std::vector<FeatureColumn> all_kinds() {
  const auto years = numeric_column("age", {.default_value = {30}});
  const auto ages = bucketized_column(years, {18, 35.5, 65});
  const auto city = categorical_column_with_vocabulary_list("city", {"Bern", "K\xc3\xb6ln", ""},
                                                            {.num_oov_buckets = 3});
  const auto room = categorical_column_with_identity("room", 4, {.default_value = 1});
  return {years,
          ages,
          indicator_column(city),
          embedding_column(categorical_column_with_hash_bucket("job", 7), 2),
          categorical_column_with_hash_bucket("code", 1000, {.dtype = kInt64}),
          categorical_column_with_vocabulary_list(
              "floor", std::vector<int64_t>{9007199254740993, -4}, {.default_value = 1}),
          weighted_categorical_column(room, "share"),
          crossed_column({ages, "job"}, 50),
          crossed_column({"job", "street", city}, int64_t{1} << 40, {.hash_key = ~uint64_t{0}})};
}

Element persons() {
  return Element::dict({{"age", floats({10, 35.5, 70}, {3, 1})},
                        {"city", texts({"Bern", "Oslo", ""}, {3, 1})},
                        {"job", texts({"cook", "", "smith", "cook", "a", "b"}, {3, 2})},
                        {"street", texts({"x", "y", "x"}, {3, 1})},
                        {"code", ints({1, -1, 30}, {3, 1})},
                        {"floor", ints({9007199254740993, 2, -4}, {3, 1})},
                        {"room", ints({0, 9, 3}, {3, 1})},
                        {"share", floats({0.5, 1, 0}, {3, 1})}});
}

TEST(RecipeTest, ColumnsReadAsThoseTheyAreMadeAfter) {
  const auto recipe = nlohmann::json::parse(recipe_of(all_kinds()).dump());
  const std::vector<FeatureColumn> again = columns_of(recipe);
  EXPECT_EQ(recipe_of(again), recipe);
  const Element one = resolve(all_kinds())(persons()), two = resolve(again)(persons());
  ASSERT_EQ(one.structure(), two.structure());
  EXPECT_GE(one.values().size(), 10u);
  for (const std::string& key : one.structure().keys)
    EXPECT_TRUE(one.at(key).value().tensor().equal(two.at(key).value().tensor())) << key;
}

TEST(RecipeTest, ColumnsThatCannotBeWrittenAreRefusedByName) {
  const auto why = [](const FeatureColumn& column) {
    return message_of([&] { (void)recipe_of({column}); });
  };
  const auto scaled =
      numeric_column("age", {.normalizer_fn = [](const Tensor& numbers) { return numbers / 10; }});
  EXPECT_THAT(why(crossed_column({bucketized_column(scaled, {1}), "job"}, 9)),
              HasSubstr("the column 'age' reads its numbers, for they have a normalizer_fn"));
  EXPECT_THAT(why(sequence_categorical_column_with_identity("clicks", 5)),
              HasSubstr("the column 'clicks', one of sequences"));
  EXPECT_THAT(why(sequence_numeric_column("price")), HasSubstr("'price', one of sequences"));
  EXPECT_THAT(
      why(categorical_column_with_vocabulary_list("city", {"\xff"})),
      HasSubstr("the column 'city' reads its features, for one of its values is not UTF-8"));
}

TEST(RecipeTest, TextThatIsNoRecipeIsRefused) {
  const auto why = [](const char* recipe) {
    return message_of([&] { (void)columns_of(nlohmann::json::parse(recipe)); });
  };
  EXPECT_THAT(why(R"([{"kind": "magic"}])"), HasSubstr("there is no kind 'magic'"));
  EXPECT_THAT(why(R"([{"kind": "hash", "key": "a", "buckets": 3, "dtype": "float3"}])"),
              HasSubstr("there is no dtype 'float3'"));
  EXPECT_THAT(why(R"([{"kind": "hash", "key": "a", "buckets": 0, "dtype": "string"}])"),
              HasSubstr("hash_bucket_size is 0"));
  EXPECT_THROW((void)columns_of(nlohmann::json::parse(R"([{"kind": "hash"}])")),
               nlohmann::json::exception);
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
