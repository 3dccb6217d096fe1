// People as tests of canned estimators see them, and an estimator of each kind over them. Thread
// safety: pure functions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "muster/canned/dnn.h"
#include "muster/canned/dnn_linear_combined.h"
#include "muster/canned/linear.h"
#include "muster/data/dataset.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

struct PeopleColumns {
  FeatureColumn city = feature_column::categorical_column_with_hash_bucket("city", 40);
  FeatureColumn years =
      feature_column::bucketized_column(feature_column::numeric_column("age"), {20, 40, 60});
  std::vector<FeatureColumn> wide{years, city, feature_column::crossed_column({years, "city"}, 60)};
  std::vector<FeatureColumn> deep{
      feature_column::numeric_column(
          "age", {.normalizer_fn = [](const Tensor& age) { return age / 40 - 1; }}),
      feature_column::embedding_column(city, 3)};

  std::vector<FeatureColumn> all() const {
    std::vector<FeatureColumn> both = wide;
    both.insert(both.end(), deep.begin(), deep.end());
    return both;
  }
};

// People with an age, up to two cities and a weight; label: one of three classes.
inline Dataset people(int64_t rows) {
  std::vector<int64_t> offsets{0};
  std::string names;
  for (int64_t i = 0; i < 2 * rows; ++i) {
    if (i % 5 != 1) names += "city" + std::to_string(i * 7 % 11);
    offsets.push_back(static_cast<int64_t>(names.size()));
  }
  const Tensor number = torch::arange(rows);
  return Dataset::from_tensor_slices(
      Element::tuple({Element::dict({{"age", (number * 13 % 80).to(kFloat32)},
                                     {"city", Strings({rows, 2}, offsets, names)},
                                     {"weight", (number % 3 + 1).to(kFloat32)}}),
                      (number * 13 % 80).floor_divide(27)}));
}

// Each makes one estimator. For regressors, the label is the number of the class.
using MakeEstimator = std::function<Estimator(RunConfig)>;

inline const std::map<std::string, MakeEstimator>& estimators() {
  static const PeopleColumns columns;
  static const std::map<std::string, MakeEstimator> all = {
      {"LinearClassifier",
       [](RunConfig config) {
         return LinearClassifier(
             {.feature_columns = columns.wide, .n_classes = 3, .weight_column = "weight"}, config);
       }},
      {"LinearRegressor",
       [](RunConfig config) {
         return LinearRegressor({.feature_columns = columns.wide,
                                 .loss_reduction = losses::Reduction::kSum,
                                 .sparse_combiner = feature_column::Combiner::kMean},
                                config);
       }},
      {"DNNClassifier",
       [](RunConfig config) {
         return DNNClassifier({.hidden_units = {8, 4},
                               .feature_columns = columns.deep,
                               .n_classes = 3,
                               .optimizer = optim::adam({.learning_rate = 0.01})},
                              config);
       }},
      {"DNNRegressor",
       [](RunConfig config) {
         return DNNRegressor({.hidden_units = {8},
                              .feature_columns = columns.deep,
                              .weight_column = "weight",
                              .activation_fn = activations::tanh},
                             config);
       }},
      {"DNNLinearCombinedClassifier",
       [](RunConfig config) {
         return DNNLinearCombinedClassifier(
             {.linear_feature_columns = columns.wide,
              .dnn_feature_columns = columns.deep,
              .dnn_optimizer = optim::adagrad({.learning_rate = 0.1}),
              .dnn_hidden_units = {8, 4},
              .n_classes = 3},
             config);
       }},
      {"DNNLinearCombinedRegressor",
       [](RunConfig config) {
         return DNNLinearCombinedRegressor({.linear_feature_columns = columns.wide,
                                            .linear_optimizer = "Adam",
                                            .dnn_feature_columns = columns.deep,
                                            .dnn_optimizer = "Adam",
                                            .dnn_hidden_units = {8},
                                            .weight_column = "weight"},
                                           config);
       }},
  };
  return all;
}

}  // namespace muster::inline v0_1::testing
