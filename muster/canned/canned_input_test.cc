// What canned estimators of feature columns refuse, and what they say.
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

// What a batch lacks is told by the estimator's name too.
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

}  // namespace
}  // namespace muster::inline v0_1
