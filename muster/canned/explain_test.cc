#include "muster/canned/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "muster/base/error_of.h"
#include "muster/base/hash.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_people.h"
#include "muster/canned/internal/test_run.h"
#include "muster/estimator/permutation_importance.h"
#include "muster/features/resolve.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::bucketized_column;
using feature_column::categorical_column_with_hash_bucket;
using feature_column::categorical_column_with_identity;
using feature_column::categorical_column_with_vocabulary_list;
using feature_column::crossed_column;
using feature_column::indicator_column;
using feature_column::numeric_column;
using feature_column::resolve;
using ::testing::AllOf;
using testing::floats;
using ::testing::HasSubstr;
using testing::leave_checkpoint;
using testing::PeopleColumns;
using testing::rows_of;
using testing::run_config;

const std::string kScope = "linear/linear_model/";

// The weight of a value, by column, value and class.
using WeightsByValue = std::map<std::tuple<std::string, std::string, std::string>, double>;
WeightsByValue weights_of(const Explanation& all) {
  WeightsByValue weights;
  for (const Explanation::Row& row : all.rows) {
    EXPECT_EQ(row.numbers.size(), 1u);
    EXPECT_TRUE(
        weights.emplace(std::tuple(row.column, row.value, row.output), row.numbers[0]).second)
        << row.column << " " << row.value;
  }
  return weights;
}

TEST(ExplainTest, CallsEveryValueByItsName) {
  const TempDirectory folder;
  const FeatureColumn job =
      categorical_column_with_vocabulary_list("job", {"nurse", "cook"}, {.num_oov_buckets = 1});
  const FeatureColumn age = bucketized_column(numeric_column("age"), {25, 35.5});
  const FeatureColumn pair = bucketized_column(numeric_column("pair", {.shape = {2}}), {0});
  const FeatureColumn room = categorical_column_with_identity("room", 2);
  const FeatureColumn hours = numeric_column("hours");
  const FeatureColumn size = numeric_column("size", {.shape = {2}});
  const FeatureColumn city = categorical_column_with_hash_bucket("city", 2);
  const FeatureColumn shown =
      indicator_column(categorical_column_with_vocabulary_list("day", {"mon", "tue"}));
  const std::vector<FeatureColumn> columns{job, age, pair, room, hours, size, city, shown};
  Estimator model = LinearRegressor({.feature_columns = columns}, run_config(folder.path()));
  EXPECT_THAT(error_of([&] { (void)explain(model, columns); }).what(), HasSubstr("NotFound"));
  const auto column = [](const std::vector<double>& weights) {
    return floats(weights).unsqueeze(1);
  };
  leave_checkpoint(folder.path(), {{kScope + "job/weights", column({1, -2, 3})},
                                   {kScope + "age_bucketized/weights", column({4, 5, 6})},
                                   {kScope + "pair_bucketized/weights", column({7, 8, 9, 10})},
                                   {kScope + "room/weights", column({11, 12})},
                                   {kScope + "hours/weights", column({-13})},
                                   {kScope + "size/weights", column({14, 15})},
                                   {kScope + "city/weights", column({16, 17})},
                                   {kScope + "day_indicator/weights", column({18, 19})},
                                   {kScope + "bias_weights", floats({0.5})}});
  const Explanation all = explain(model, columns);
  const auto key = [](const char* name, const char* value) { return std::tuple(name, value, ""); };
  EXPECT_EQ(weights_of(all), (WeightsByValue{{key(kBiasRow, ""), 0.5},
                                             {key("job", "nurse"), 1},
                                             {key("job", "cook"), -2},
                                             {key("job", "unknown 0"), 3},
                                             {key("age_bucketized", "below 25"), 4},
                                             {key("age_bucketized", "25 to 35.5"), 5},
                                             {key("age_bucketized", "35.5 or more"), 6},
                                             {key("pair_bucketized", "[0] below 0"), 7},
                                             {key("pair_bucketized", "[0] 0 or more"), 8},
                                             {key("pair_bucketized", "[1] below 0"), 9},
                                             {key("pair_bucketized", "[1] 0 or more"), 10},
                                             {key("room", "0"), 11},
                                             {key("room", "1"), 12},
                                             {key("hours", ""), -13},
                                             {key("size", "[0]"), 14},
                                             {key("size", "[1]"), 15},
                                             {key("city", "bucket 0"), 16},
                                             {key("city", "bucket 1"), 17},
                                             {key("day_indicator", "mon"), 18},
                                             {key("day_indicator", "tue"), 19}}));
  for (size_t i = 1; i < all.rows.size(); ++i)
    EXPECT_GE(std::abs(all.rows[i - 1].numbers[0]), std::abs(all.rows[i].numbers[0]));
  // Some of the columns are enough.
  EXPECT_EQ(explain(model, {hours}).rows.size(), 2u);
}

TEST(ExplainTest, BucketsTellWhatWasSeenInThem) {
  const TempDirectory folder;
  const FeatureColumn city = categorical_column_with_hash_bucket("city", 3);
  const FeatureColumn years = bucketized_column(numeric_column("age"), {30});
  const FeatureColumn both = crossed_column({years, "city"}, 2);
  Estimator model = LinearRegressor({.feature_columns = {city, both}}, run_config(folder.path()));
  leave_checkpoint(folder.path(), {{kScope + "city/weights", torch::zeros({3, 1})},
                                   {kScope + both.name() + "/weights", torch::zeros({2, 1})},
                                   {kScope + "bias_weights", torch::zeros({1})}});
  const Element rows =
      Element::dict({{"city", Strings(std::vector<std::string>{"Rome", "Oslo", "Rome", ""})},
                     {"age", floats({20, 30, 40, 50})}});
  const Explanation all =
      explain(model, {city, both}, {.data = [&] { return Dataset::from_tensors(rows); }});
  // The buckets by column and text.
  std::map<std::pair<std::string, std::string>, std::string> bucket_of;
  for (const Explanation::Row& row : all.rows) {
    const size_t colon = row.value.find(": ");
    if (colon == std::string::npos) continue;
    std::string texts = row.value.substr(colon + 2) + ", ";
    for (size_t end = 0; (end = texts.find(", ")) != std::string::npos; texts.erase(0, end + 2)) {
      std::string& bucket = bucket_of[{row.column, texts.substr(0, end)}];
      EXPECT_EQ(bucket, "") << row.value;  // a text is in one
      bucket = row.value.substr(0, colon);
    }
  }
  const auto bucket = [](const char* text) {
    return "bucket " + std::to_string(fingerprint64(text) % 3);
  };
  EXPECT_EQ((bucket_of[{"city", "Rome"}]), bucket("Rome"));
  EXPECT_EQ((bucket_of[{"city", "Oslo"}]), bucket("Oslo"));
  // The cross has each of its combinations; of a dense feature "" is a value too.
  for (const char* text : {"below 30 x Rome", "30 or more x Oslo", "30 or more x Rome"}) {
    EXPECT_THAT((bucket_of[{both.name(), text}]), ::testing::MatchesRegex("bucket [01]")) << text;
  }
  // The most frequent values alone.
  const Explanation one = explain(
      model, {city}, {.data = [&] { return Dataset::from_tensors(rows); }, .most_values = 1});
  EXPECT_EQ(one.rows.size(), 4u);
}

TEST(ExplainTest, EveryClassHasItsWeights) {
  const TempDirectory folder;
  const FeatureColumn hours = numeric_column("hours");
  Estimator model =
      LinearClassifier({.feature_columns = {hours}, .n_classes = 3}, run_config(folder.path()));
  leave_checkpoint(folder.path(), {{kScope + "hours/weights", rows_of({{1, -3, 2}})},
                                   {kScope + "bias_weights", floats({0.1, 0.2, 0.3})}});
  const Explanation all = explain(model, {hours}, {.classes = {"a", "b", "c"}});
  ASSERT_EQ(all.rows.size(), 6u);
  EXPECT_EQ(all.rows[0], (Explanation::Row{"hours", "", "b", {-3}}));
  EXPECT_EQ(all.rows[1], (Explanation::Row{"hours", "", "c", {2}}));
  EXPECT_EQ(all.rows[3].column, kBiasRow);
  EXPECT_EQ(explain(model, {hours}).rows[0].output, "1");
  EXPECT_THAT(message_of([&] { (void)explain(model, {hours}, {.classes = {"a"}}); }),
              HasSubstr("1 classes, and the model has 3 logits"));
}

// For trained models, also the linear part of wide and deep ones: each variable is there, whole.
TEST(ExplainTest, WeightsAreTheVariables) {
  const PeopleColumns columns;
  for (const char* name : {"LinearClassifier", "DNNLinearCombinedClassifier"}) {
    const TempDirectory folder;
    Estimator model = testing::estimators().at(name)(run_config(folder.path()));
    model.train([] { return testing::people(64).repeat().batch(16); }, {.max_steps = 10});
    const Explanation all = explain(model, columns.wide);
    std::map<std::string, double> sums;
    for (const Explanation::Row& row : all.rows) sums[row.column] += row.numbers[0];
    size_t rows = 3;
    for (const FeatureColumn& column : columns.wide) {
      const Tensor weights = model.get_variable_value(kScope + column.name() + "/weights");
      EXPECT_NEAR(sums[column.name()], weights.sum().item<double>(), 1e-5) << column.name();
      rows += static_cast<size_t>(weights.numel());
    }
    EXPECT_EQ(all.rows.size(), rows);
    EXPECT_EQ(explain(model, columns.wide), all);
  }
}

// The features that a known model needs are returned in its order, with texts that are resolved in
// the step or before it.
TEST(ExplainTest, ShufflingFindsWhatALinearModelNeeds) {
  const TempDirectory folder;
  const FeatureColumn kind = categorical_column_with_vocabulary_list("kind", {"a", "b", "c"});
  const FeatureColumn x = numeric_column("x"), noise = numeric_column("noise");
  const std::vector<FeatureColumn> columns{kind, x, noise};
  Estimator model = LinearRegressor({.feature_columns = columns}, run_config(folder.path()));
  leave_checkpoint(folder.path(), {{kScope + "kind/weights", floats({-4, 0, 4}).unsqueeze(1)},
                                   {kScope + "x/weights", torch::ones({1, 1})},
                                   {kScope + "noise/weights", torch::zeros({1, 1})},
                                   {kScope + "bias_weights", torch::zeros({1})}});
  constexpr int64_t kRows = 120;
  std::vector<std::string> kinds;
  Tensor label = torch::empty({kRows});
  const Tensor number = torch::arange(kRows).remainder(7).to(kFloat32) - 3;
  for (int64_t i = 0; i < kRows; ++i) {
    kinds.push_back(std::string(1, static_cast<char>('a' + i % 3)));
    label[i] = static_cast<double>(4 * (i % 3 - 1)) + number[i].item<double>();
  }
  const Element rows = Element::tuple({Element::dict({{"kind", Strings(kinds)},
                                                      {"x", number},
                                                      {"noise", number * 5},
                                                      {"other", Strings(kinds)}}),
                                       label});
  const auto evaluate = [&](const InputFn& input) { return model.evaluate(input); };
  const auto raw = [&] { return Dataset::from_tensor_slices(rows).batch(32); };
  const Explanation all = permutation_importance(evaluate, raw, {.repeats = 2});
  ASSERT_EQ(all.rows.size(), 4u);
  EXPECT_EQ(all.rows[0].column, "kind");
  EXPECT_EQ(all.rows[1].column, "x");
  EXPECT_EQ(all.rows[2].numbers, (std::vector<double>{0, 0}));
  EXPECT_EQ(all.rows[3].numbers, (std::vector<double>{0, 0}));
  const auto resolved = [&] { return raw().map(resolve(columns)); };
  const Explanation of_columns =
      permutation_importance(evaluate, resolved, {.columns = {"kind"}, .repeats = 2});
  EXPECT_NEAR(of_columns.rows[0].numbers[0], all.rows[0].numbers[0], 1e-4);
  EXPECT_EQ(permutation_importance(
                evaluate, raw, {.columns = {"kind"}, .repeats = 2, .transform = resolve(columns)})
                .rows[0]
                .numbers,
            all.rows[0].numbers);
}

TEST(ExplainTest, SaysWhatIsWrong) {
  const TempDirectory folder;
  const FeatureColumn hours = numeric_column("hours");
  Estimator model = LinearRegressor({.feature_columns = {hours}}, run_config(folder.path()));
  leave_checkpoint(folder.path(), {{kScope + "hours/weights", torch::ones({1, 1})},
                                   {kScope + "bias_weights", torch::zeros({1})}});
  EXPECT_THAT(message_of([&] { (void)explain(model, {}); }), HasSubstr("no columns"));
  EXPECT_THAT(message_of([&] { (void)explain(model, {hours}, {.most_values = 0}); }),
              HasSubstr("most_values = 0"));
  const Error unknown = error_of([&] { (void)explain(model, {numeric_column("hour")}); });
  EXPECT_THAT(unknown.what(), AllOf(HasSubstr("the linear model has no column 'hour'"),
                                    HasSubstr("did you mean 'hours'")));
  EXPECT_THAT(message_of([&] { (void)explain(model, {numeric_column("hours", {.shape = {3}})}); }),
              HasSubstr("the column 'hours' has 3 values, and the model 1 weights"));
  EXPECT_THAT(message_of([&] {
                (void)explain(model, {hours}, {.data = [] {
                                return Dataset::from_tensors(torch::ones({1})).repeat();
                              }});
              }),
              HasSubstr("without end"));
}

}  // namespace
}  // namespace muster::inline v0_1
