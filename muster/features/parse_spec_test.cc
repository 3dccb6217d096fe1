#include "muster/features/parse_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/features/internal/test_features.h"
#include "muster/formats/example.h"

namespace muster::inline v0_1::feature_column {
namespace {

using ::testing::ElementsAre;
using testing::expect_equal;
using testing::floats;
using ::testing::HasSubstr;
using testing::ints;

const FeatureColumn kCity = categorical_column_with_hash_bucket("city", 7);
const std::vector<FeatureColumn> kColumns{
    numeric_column("place", {.shape = {2}, .default_value = {4, 5}}),
    bucketized_column(numeric_column("age"), {18}),
    embedding_column(weighted_categorical_column(kCity, "share"), 3),
    indicator_column(crossed_column({"job", categorical_column_with_identity("n", 3)}, 10))};

std::vector<std::string> keys_of(const data::FeatureSpec& spec) {
  std::vector<std::string> keys;
  for (const auto& [key, feature] : spec) keys.push_back(key);
  return keys;
}

TEST(ParseSpecTest, ParsedFeaturesAreResolved) {
  const data::FeatureSpec spec = make_parse_example_spec(kColumns);
  EXPECT_THAT(keys_of(spec), ElementsAre("age", "city", "job", "n", "place", "share"));
  const auto serialized = [](float age, const std::vector<std::string>& cities,
                             const std::vector<float>& shares) {
    return formats::encode_example(formats::Example{{{"age", std::vector<float>{age}},
                                                     {"city", cities},
                                                     {"share", shares},
                                                     {"job", std::vector<std::string>{"cook"}},
                                                     {"n", std::vector<int64_t>{2}}}});
  };
  const Element parsed = data::ExampleParser(spec)(
      Strings({serialized(20, {"a", "b"}, {1, 2}), serialized(10, {}, {})}));
  const Element resolved = resolve(kColumns)(parsed);
  expect_equal(resolved.at("place/values").value().tensor(), floats({4, 5, 4, 5}, {2, 2}));
  expect_equal(resolved.at("age_bucketized/ids").value().tensor(), ints({1, 0}, {2, 1}));
  expect_equal(resolved.at("city_weighted_by_share/weights").value().tensor(),
               floats({1, 2, 0, 0}, {2, 2}));
  const Tensor ids = resolved.at("city_weighted_by_share/ids").value().tensor();
  EXPECT_TRUE(ids[0].ge(0).all().item<bool>());
  EXPECT_TRUE(ids[1].eq(-1).all().item<bool>());
  const Tensor crossed = resolved.at("job_X_n/ids").value().tensor();
  EXPECT_EQ(crossed.sizes(), at::IntArrayRef({2, 1}));
}

TEST(ParseSpecTest, LabelsAndWeights) {
  const auto classifier =
      classifier_parse_example_spec(kColumns, "income", {.weight_column = "fnlwgt"});
  const auto& label = std::get<data::FixedLenFeature>(classifier.at("income"));
  EXPECT_EQ(label.shape, Shape{1});
  EXPECT_EQ(label.dtype, data::FeatureDType(kInt64));
  EXPECT_EQ(std::get<data::FixedLenFeature>(classifier.at("fnlwgt")).dtype,
            data::FeatureDType(kFloat32));
  const auto regressor = regressor_parse_example_spec(kColumns, "income", {.label_dimension = 3});
  EXPECT_EQ(std::get<data::FixedLenFeature>(regressor.at("income")).shape, Shape{3});
  EXPECT_EQ(std::get<data::FixedLenFeature>(regressor.at("income")).dtype,
            data::FeatureDType(kFloat32));
  const auto weights = numeric_column("fnlwgt", {.default_value = {1}, .dtype = kInt64});
  const auto by_column =
      classifier_parse_example_spec(kColumns, "income", {.weight_column = weights});
  EXPECT_EQ(std::get<data::FixedLenFeature>(by_column.at("fnlwgt")).dtype,
            data::FeatureDType(kInt64));
  // A column may read the weights too.
  EXPECT_NO_THROW(classifier_parse_example_spec(kColumns, "income", {.weight_column = "age"}));
}

TEST(ParseSpecTest, ContradictionsAreRefused) {
  EXPECT_THAT(message_of([] {
                make_parse_example_spec({kCity, numeric_column("city")});
              }),
              HasSubstr("the column 'city' reads the feature 'city' as float32[1] with no default, "
                        "and another one as any number of string"));
  EXPECT_THAT(
      message_of([] {
        make_parse_example_spec({numeric_column("x"), numeric_column("x", {.default_value = {1}})});
      }),
      HasSubstr("float32[1] with the default 1, and another one as float32[1] with no"));
  EXPECT_THAT(message_of([] { classifier_parse_example_spec(kColumns, "age"); }),
              HasSubstr("classifier_parse_example_spec: the label 'age' is a feature too"));
  EXPECT_THAT(
      message_of([] { regressor_parse_example_spec(kColumns, "y", {.weight_column = "city"}); }),
      HasSubstr("regressor_parse_example_spec reads the feature 'city' as float32[1]"));
  EXPECT_THAT(
      message_of([] { regressor_parse_example_spec(kColumns, "y", {.label_dimension = 0}); }),
      HasSubstr("regressor_parse_example_spec of 'y': label_dimension is 0"));
}

TEST(ParseSpecTest, ColumnsOfACsvFile) {
  const TempDirectory directory;
  const std::string path = directory / "people.csv";
  std::ofstream(path) << "age,job,city,rooms,income\n20,cook,Oslo,3,1\n,,Bern,,0\n";
  const std::vector<FeatureColumn> columns{
      numeric_column("age", {.default_value = {-1}}), indicator_column(kCity),
      categorical_column_with_vocabulary_list("job", {"cook", "smith"}),
      categorical_column_with_identity("rooms", 5)};
  const auto iterator = data::csv({path}, csv_options(columns, {"income", data::CsvKind::kInt64}))
                            .batch(2)
                            .map(resolve(columns))
                            .iterator();
  std::optional<Element> batch;
  ASSERT_TRUE(batch = iterator->next());
  const Element features = batch->part(0);
  expect_equal(features.at("age/values").value().tensor(), floats({20, -1}, {2, 1}));
  expect_equal(features.at("job/ids").value().tensor(), ints({0, -1}, {2, 1}));
  expect_equal(features.at("rooms/ids").value().tensor(), ints({3, -1}, {2, 1}));
  expect_equal(batch->part(1).value().tensor(), ints({1, 0}, {2}));
  EXPECT_EQ(csv_options(columns, {"income"}).columns.back().kind, data::CsvKind::kFloat32);
  EXPECT_THAT(message_of([&] { csv_options(columns, {"city"}); }),
              HasSubstr("csv_options: the label 'city' is a feature too"));
  EXPECT_THAT(message_of([&] { csv_options(columns, {}); }), HasSubstr("csv_options"));
  EXPECT_THAT(message_of([] { csv_columns({numeric_column("x", {.shape = {2}})}); }),
              HasSubstr("csv_columns: the feature 'x' has the shape [2]"));
}

}  // namespace
}  // namespace muster::inline v0_1::feature_column
