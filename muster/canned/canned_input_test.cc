// Inputs that canned estimators of feature columns refuse, and the errors they give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/canned/dnn.h"
#include "muster/canned/dnn_linear_combined.h"
#include "muster/canned/internal/test_run.h"
#include "muster/canned/linear.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/heads/binary_class_head.h"

namespace muster::inline v0_1 {
namespace {

using feature_column::categorical_column_with_hash_bucket;
using feature_column::numeric_column;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::one_batch;
using testing::rows_of;
using testing::run_config;
using ::testing::StartsWith;

const std::vector<FeatureColumn> kAge{numeric_column("age")};

TEST(CannedInputTest, SaysWhichColumnsAreWrong) {
  EXPECT_EQ(message_of([] { LinearClassifier({}); }),
            "LinearClassifier: LinearModel: there are no columns");
  EXPECT_EQ(message_of([] {
              LinearRegressor({.feature_columns = {kAge[0], kAge[0]}});
            }),
            "LinearRegressor: LinearModel: two columns are named 'age'");
  EXPECT_EQ(message_of([] { DNNClassifier({.hidden_units = {4}}); }),
            "DNNClassifier: DenseFeatures: there are no columns");
  const auto city = categorical_column_with_hash_bucket("city", 10);
  const Error error =
      error_of([&] { DNNRegressor({.hidden_units = {4}, .feature_columns = {city}}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error.message(), "DNNRegressor: DenseFeatures: the column 'city' is not dense");
  EXPECT_THAT(error.hint(), HasSubstr("embedding_column"));
  EXPECT_EQ(
      message_of([] { DNNLinearCombinedClassifier({}); }),
      "DNNLinearCombinedClassifier: linear_feature_columns and dnn_feature_columns are empty; "
      "at least one of them must have columns");
  EXPECT_EQ(message_of([&] {
              DNNLinearCombinedRegressor({.linear_feature_columns = {city, city}});
            }),
            "DNNLinearCombinedRegressor: LinearModel: two columns are named 'city'");
}

TEST(CannedInputTest, SaysWhichOptionsAreWrong) {
  const std::string sizes = "it must be the sizes of one or more layers, each at least 1";
  EXPECT_EQ(message_of([] { DNNClassifier({.feature_columns = kAge}); }),
            "DNNClassifier: hidden_units is []; " + sizes);
  EXPECT_EQ(message_of([] {
              DNNRegressor({.hidden_units = {8, 0}, .feature_columns = kAge});
            }),
            "DNNRegressor: hidden_units is [8, 0]; " + sizes);
  EXPECT_EQ(message_of([] { DNNLinearCombinedClassifier({.dnn_feature_columns = kAge}); }),
            "DNNLinearCombinedClassifier: dnn_hidden_units is []; " + sizes);
  EXPECT_EQ(
      message_of([] {
        DNNLinearCombinedRegressor({.linear_feature_columns = kAge, .dnn_hidden_units = {8, 4}});
      }),
      "DNNLinearCombinedRegressor: dnn_hidden_units is [8, 4] and dnn_feature_columns is "
      "empty");
  for (const double rate : {-0.5, 1.0, std::nan("")}) {
    EXPECT_THAT(message_of([&] {
                  DNNClassifier({.hidden_units = {4}, .feature_columns = kAge, .dropout = rate});
                }),
                AllOf(StartsWith("DNNClassifier: dropout is "),
                      HasSubstr("it must be at least 0 and less than 1")));
  }
  EXPECT_THAT(message_of([] {
                DNNLinearCombinedRegressor(
                    {.dnn_feature_columns = kAge, .dnn_hidden_units = {4}, .dnn_dropout = 2});
              }),
              StartsWith("DNNLinearCombinedRegressor: dnn_dropout is 2; "));
  EXPECT_EQ(message_of([] { LinearClassifier({.feature_columns = kAge, .n_classes = 1}); }),
            "LinearClassifier: n_classes is 1; it must be at least 2");
  EXPECT_EQ(message_of([] {
              DNNRegressor({.hidden_units = {4}, .feature_columns = kAge, .label_dimension = 0});
            }),
            "DNNRegressor: RegressionHead: label_dimension is 0; it must be at least 1");
  EXPECT_THAT(
      message_of([] {
        LinearClassifier({.feature_columns = kAge, .n_classes = 3, .label_vocabulary = {"a", "b"}});
      }),
      StartsWith("LinearClassifier: MultiClassHead: label_vocabulary is 2 names"));
  EXPECT_THAT(
      message_of([] {
        LinearRegressor({.feature_columns = kAge, .loss_reduction = losses::Reduction::kNone});
      }),
      StartsWith("LinearRegressor: RegressionHead: loss_reduction"));
}

TEST(CannedInputTest, SaysWhichOptimizersThereAre) {
  const std::string known = "has no name 'Adm'; it has 'Adagrad', 'Adam', 'Ftrl', 'RMSProp', 'SGD'";
  EXPECT_THAT(message_of([] { LinearRegressor({.feature_columns = kAge, .optimizer = "Adm"}); }),
              AllOf(StartsWith("LinearRegressor: "), HasSubstr(known)));
  EXPECT_THAT(message_of([] {
                DNNClassifier({.hidden_units = {4}, .feature_columns = kAge, .optimizer = "Adm"});
              }),
              AllOf(StartsWith("DNNClassifier: "), HasSubstr(known)));
  EXPECT_THAT(
      message_of([] {
        DNNLinearCombinedEstimator(BinaryClassHead({}),
                                   {.linear_feature_columns = kAge, .linear_optimizer = "Adm"});
      }),
      AllOf(StartsWith("DNNLinearCombinedEstimator: linear_optimizer: "), HasSubstr(known)));
}

// The error for a missing feature names the estimator too.
TEST(CannedInputTest, SaysWhatABatchLacks) {
  const TempDirectory directory;
  const auto train = [&](Estimator estimator, const Element& features) {
    return message_of(
        [&] { estimator.train(one_batch(features, torch::tensor({{1}})), {.max_steps = 1}); });
  };
  const Element height = Element::dict({{"height", rows_of({{1}})}});
  EXPECT_THAT(
      train(LinearClassifier({.feature_columns = kAge}, run_config(directory / "1")), height),
      AllOf(HasSubstr("LinearClassifier: "), HasSubstr("no feature 'age'; it has 'height'")));
  EXPECT_THAT(train(DNNClassifier({.hidden_units = {2}, .feature_columns = kAge},
                                  run_config(directory / "2")),
                    height),
              AllOf(HasSubstr("DNNClassifier: "), HasSubstr("no feature 'age'; it has 'height'")));
  EXPECT_THAT(train(DNNLinearCombinedClassifier({.linear_feature_columns = kAge},
                                                run_config(directory / "3")),
                    rows_of({{1}})),
              AllOf(HasSubstr("DNNLinearCombinedClassifier: "),
                    HasSubstr("features by their names, and these have none: float32[1, 1]")));
}

// An error in a batch is reported in each mode: what, where, which value.
TEST(CannedInputTest, SaysWhatIsWrongWithABatchInEachMode) {
  const TempDirectory directory;
  const auto city = feature_column::categorical_column_with_identity("city", 3);
  const auto shares = feature_column::weighted_categorical_column(city, "share");
  struct Case {
    std::vector<FeatureColumn> columns{};
    std::vector<std::pair<std::string, Element>> features;
    const char* message{};
  };
  const std::vector<Case> cases = {
      {kAge,
       {{"age", Strings(std::vector<std::string>{"old"})}},
       "the column 'age': its feature is string[1]"},
      {kAge,
       {{"age", rows_of({{1, 2}})}},
       "the column 'age': its feature is float32[1, 2], and its shape [1]"},
      {{city},
       {{"city", torch::tensor({{0, 3}})}},
       "the column 'city': the value 3, number 1 of the batch, is outside of its 3 buckets"},
      {{city},
       {{"city", rows_of({{1}})}},
       "the column 'city' takes integers, and its feature 'city' is float32[1, 1]"},
      {{shares},
       {{"city", torch::tensor({{1}})}},
       "the input of the column 'city_weighted_by_share' has no feature 'share'; it has 'city'"},
      {{shares},
       {{"city", torch::tensor({{1}})}, {"share", rows_of({{1, 2}})}},
       "its weights 'share' are float32[1, 2], and its ids int64[1, 1]"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& each = cases[i];
    const Element features = Element::dict(each.features);
    const InputFn labelled = one_batch(features, torch::tensor({{1}}));
    Estimator estimator = LinearClassifier({.feature_columns = each.columns},
                                           run_config(directory / std::to_string(i)));
    const std::map<std::string, std::function<void()>> modes{
        {"train", [&] { estimator.train(labelled, {.max_steps = 1}); }},
        {"evaluate", [&] { estimator.evaluate(labelled, {.steps = 1, .allow_untrained = true}); }},
        {"predict", [&] {
           estimator.predict(testing::features_alone(features), {.allow_untrained = true}).next();
         }}};
    for (const auto& [mode, call] : modes) {
      const Error error = error_of(call);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << mode << ": " << error.what();
      EXPECT_THAT(error.message(), AllOf(HasSubstr("LinearClassifier: "), HasSubstr(each.message)))
          << mode;
      EXPECT_FALSE(error.hint().empty()) << mode << ": " << error.what();
    }
  }
}

// Labels and weights are checked if there are any.
TEST(CannedInputTest, SaysWhichLabelsAndWeightsAreWrong) {
  const TempDirectory directory;
  struct Case {
    LinearClassifierOptions options;
    Element label;
    double weight;
    const char* message;
  };
  const std::vector<Case> cases = {
      {{.feature_columns = kAge, .n_classes = 3},
       torch::tensor({3}),
       1,
       "MultiClassHead: labels[0, 0] is 3; labels must be in [0, 3)"},
      {{.feature_columns = kAge, .label_vocabulary = {"no", "yes"}},
       Strings(std::vector<std::string>{"maybe"}),
       1,
       "its label_vocabulary has no label 'maybe'; it has 'no', 'yes'"},
      {{.feature_columns = kAge, .weight_column = "w"},
       torch::tensor({1}),
       -2,
       "the weights \"w\"[0, 0] is -2; the weights \"w\" must be finite and 0 or more"},
      {{.feature_columns = kAge, .weight_column = "v"},
       torch::tensor({1}),
       1,
       "weight_column is \"v\"; it must be one of the features, {age: float32[1, 1], w: "},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const InputFn input =
        one_batch(Element::dict({{"age", rows_of({{1}})}, {"w", rows_of({{cases[i].weight}})}}),
                  cases[i].label);
    Estimator estimator =
        LinearClassifier(cases[i].options, run_config(directory / std::to_string(i)));
    for (const bool train : {true, false}) {
      const Error error = error_of([&] {
        if (train) {
          estimator.train(input, {.max_steps = 1});
        } else {
          estimator.evaluate(input, {.steps = 1, .allow_untrained = true});
        }
      });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_THAT(error.message(), HasSubstr(cases[i].message));
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1
