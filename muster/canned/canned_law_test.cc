// Canned estimators on any number of replicas: of one process and of several, through
// train_and_evaluate. Tables of categories are row-sparse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/canned/baseline.h"
#include "muster/canned/internal/test_people.h"
#include "muster/canned/internal/test_run.h"
#include "muster/canned/kmeans.h"
#include "muster/canned/rnn.h"
#include "muster/estimator/train_and_evaluate.h"
#include "muster/export/servable.h"
#include "muster/features/resolve.h"
#include "muster/features/sequence_column.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using testing::estimators;
using testing::largest_distance;
using testing::LocalCluster;
using testing::people;
using testing::PeopleColumns;

class CannedLawTest : public ::testing::TestWithParam<std::string> {
 protected:
  // Batches that replicas share unevenly, the last one of them smaller.
  EvalResult train(Estimator& estimator) const {
    const auto to_numbers = feature_column::resolve(PeopleColumns().all());
    const auto result = train_and_evaluate(
        estimator,
        {.input_fn = [&] { return people(47).repeat(2).global_batch(11).map(to_numbers); }},
        {.input_fn = [&] { return people(47).batch(10).map(to_numbers); }, .steps = std::nullopt});
    return result.value_or(EvalResult{});
  }
  RunConfig config(const std::string& name, int replicas) const {
    return testing::run_config(directory_ / name, replicas);
  }
  const testing::MakeEstimator& make() const { return estimators().at(GetParam()); }

  const TempDirectory directory_;
};
INSTANTIATE_TEST_SUITE_P(Each, CannedLawTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, make] : estimators()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST_P(CannedLawTest, ReplicasComputeWhatOneComputes) {
  Estimator one = make()(config("one", 1)), two = make()(config("two", 2));
  const EvalResult alone = train(one), shared = train(two);
  EXPECT_EQ(alone.at("global_step"), 9);
  EXPECT_LT(largest_distance(one, two), 1e-4);
  ASSERT_EQ(alone.size(), shared.size());
  for (const auto& [name, value] : alone)
    EXPECT_NEAR(shared.at(name), value, 1e-4 * (1 + std::abs(value))) << name;

  const LocalCluster cluster(2);
  std::vector<EvalResult> results(2);
  testing::run_ranks(2, [&](int rank) {
    RunConfig own = config("workers", 1);
    own.train_distribute = own.eval_distribute = distribute::multi_worker_mirrored();
    own.environment = cluster.environment(rank);
    Estimator estimator = make()(own);
    results[static_cast<size_t>(rank)] = train(estimator);
  });
  EXPECT_LT(largest_distance(make()(config("workers", 1)), two), 1e-6);
  for (const auto& [name, value] : shared)
    EXPECT_NEAR(results[0].at(name), value, 1e-5 * (1 + std::abs(value))) << name;
}

// An export answers as the estimator does, for any number of rows.
TEST_P(CannedLawTest, IsExportedForResolvedFeatures) {
  Estimator estimator = make()(config("m", 1));
  train(estimator);
  const Servable served(
      estimator
          .export_model(directory_ / "export",
                        raw_serving_input_receiver({{"age", {kFloat32, {1}}},
                                                    {"city/ids", {kInt64, {2}}},
                                                    {"age_bucketized_X_city/ids", {kInt64, {2}}}}))
          .value());
  const auto to_numbers = feature_column::resolve(PeopleColumns().all());
  const InputFn input = [&] {
    return people(12).map([](const Element& row) { return row.part(0); }).batch(6).map(to_numbers);
  };
  std::optional<Element> batch;
  ASSERT_TRUE(batch = input({}).iterator()->next());
  Servable::Tensors asked{{"age", batch->at("age").value().tensor().unsqueeze(1)}};
  for (const char* key : {"city/ids", "age_bucketized_X_city/ids"})
    asked[key] = batch->at(key).value().tensor();
  std::optional<Prediction> predicted;
  ASSERT_TRUE(predicted = estimator.predict(input, {.yield_single_examples = false}).next());
  const auto answer = served.run("predict", asked);
  ASSERT_EQ(answer.size(), predicted->size());
  for (const auto& [key, tensor] : *predicted)
    EXPECT_TRUE(torch::allclose(answer.at(key), tensor)) << key;
}

// Estimators with an input of their own.
struct OwnInput {
  testing::MakeEstimator make;
  InputFn train{};
  InputFn evaluate{};
  int64_t steps{};  // that training makes
  // Whether one replica computes that too: LinearSDCA takes other steps, to the same end.
  bool as_one = true;
};

// Visits of 1 to 5 pages, padded; the label of each step is whether its page is above 3.
Dataset visits(int64_t rows) {
  const Tensor number = torch::arange(rows).unsqueeze(1), step = torch::arange(5).unsqueeze(0);
  const Tensor counts = step.lt(number * 3 % 5 + 1);
  const Tensor page = torch::where(counts, (number * 7 + step * 3) % 8, -1);
  return Dataset::from_tensor_slices(
      Element::tuple({Element::dict({{"page", page}, {"weight", (number + step) % 3 + 0.5}}),
                      page.gt(3).to(kInt64)}));
}

// For each visit, whether it is long, and the first page.
Dataset whole_visits(int64_t rows) {
  return visits(rows).map([](const Element& visit) {
    const Tensor page = visit.part(0).at("page").value().tensor();
    return Element::tuple(
        {Element::dict({{"page", page}, {"long", page[3].ge(0).to(kFloat32)}}), page[0]});
  });
}

Tensor clouds(int64_t rows) {
  const Tensor number = torch::arange(rows).to(kFloat64);
  return torch::stack({(number % 3) * 9 + number.sin(), (number % 2) * 7 + (2 * number).cos()}, 1)
      .to(kFloat32);
}
InputFn cloud_batches(int64_t size) {
  return [=] { return Dataset::from_tensor_slices(clouds(60)).repeat(4).global_batch(size); };
}
const InputFn kClouds = [] { return Dataset::from_tensor_slices(clouds(60)).batch(25); };

// The same with an id, and with whether a point is of the first cloud.
Dataset numbered_clouds() {
  const Tensor number = torch::arange(60);
  return Dataset::from_tensor_slices(Element::tuple(
      {Element::dict({{"id", number}, {"x", clouds(60)}}), (number % 3).eq(0).to(kInt64)}));
}

const std::map<std::string, OwnInput>& own_inputs() {
  static const std::vector<FeatureColumn> pages{feature_column::embedding_column(
      feature_column::sequence_categorical_column_with_identity("page", 8), 4)};
  static const std::map<std::string, OwnInput> all = {
      {"RNNClassifier",
       {[](RunConfig config) {
          return RNNClassifier({.sequence_feature_columns = pages,
                                .units = {6, 4},
                                .cell_type = "lstm",
                                .return_sequences = true,
                                .weight_column = "weight"},
                               config);
        },
        [] { return visits(47).repeat(2).global_batch(11); }, [] { return visits(47).batch(10); },
        9}},
      {"RNNRegressor",
       {[](RunConfig config) {
          return RNNRegressor({.sequence_feature_columns = pages,
                               .context_feature_columns = {feature_column::numeric_column("long")},
                               .units = {5},
                               .cell_type = "gru"},
                              config);
        },
        [] { return whole_visits(47).repeat(2).global_batch(11); },
        [] { return whole_visits(47).batch(10); }, 9}},
      {"BaselineClassifier",
       {[](RunConfig config) {
          return BaselineClassifier({.n_classes = 3, .weight_column = "weight"}, config);
        },
        [] { return people(47).repeat(2).global_batch(11); }, [] { return people(47).batch(10); },
        9}},
      {"KMeansMiniBatch",
       {[](RunConfig config) {
          return KMeansClustering({.num_clusters = 6, .initial_clusters = "kmeans_plus_plus"},
                                  config);
        },
        cloud_batches(31), kClouds, 8}},
      {"KMeansFullBatch",
       {[](RunConfig config) {
          return KMeansClustering(
              {.num_clusters = 6, .use_mini_batch = false, .relative_tolerance = 1e-9}, config);
        },
        cloud_batches(60), kClouds, 0}},
      {"KMeansIterations",
       {[](RunConfig config) {
          return KMeansClustering({.num_clusters = 40,  // more than the first batch has
                                   .distance_metric = "cosine",
                                   .mini_batch_steps_per_iteration = 2},
                                  config);
        },
        cloud_batches(31), kClouds, 8}},
      {"LinearSdca",
       {[](RunConfig config) {
          return LinearClassifier(
              {.feature_columns = {feature_column::numeric_column("x", {.shape = {2}})},
               .optimizer = LinearSDCA{.example_id_column = "id"}},
              config);
        },
        [] { return numbered_clouds().repeat(4).global_batch(31); },
        [] { return numbered_clouds().batch(25); }, 8, false}},
  };
  return all;
}

class OwnInputLawTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Each, OwnInputLawTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, input] : own_inputs()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

TEST_P(OwnInputLawTest, ReplicasComputeWhatOneComputes) {
  const TempDirectory directory;
  const OwnInput& own = own_inputs().at(GetParam());
  const auto train = [&](RunConfig config) {
    Estimator estimator = own.make(std::move(config));
    return train_and_evaluate(estimator, {.input_fn = own.train},
                              {.input_fn = own.evaluate, .steps = std::nullopt})
        .value_or(EvalResult{});
  };
  const auto config = [&](const std::string& name, int replicas) {
    return testing::run_config(directory / name, replicas);
  };
  const auto distance = [&](const std::string& a, const std::string& b) {
    return largest_distance(own.make(config(a, 1)), own.make(config(b, 1)));
  };
  RunConfig on_one = config("one", 1);
  on_one.train_distribute = on_one.eval_distribute = distribute::one_device();
  const EvalResult alone = train(on_one), shared = train(config("two", 2));
  if (own.steps > 0) {
    EXPECT_EQ(alone.at("global_step"), own.steps);
  }
  if (own.as_one) {
    EXPECT_LT(distance("one", "two"), 1e-4);
  }
  const LocalCluster cluster(2);
  std::vector<EvalResult> results(2);
  testing::run_ranks(2, [&](int rank) {
    RunConfig mine = config("workers", 1);
    mine.train_distribute = mine.eval_distribute = distribute::multi_worker_mirrored();
    mine.environment = cluster.environment(rank);
    results[static_cast<size_t>(rank)] = train(mine);
  });
  EXPECT_LT(distance("workers", "two"), 1e-6);
  ASSERT_FALSE(alone.empty());
  for (const auto& [name, value] : alone) {
    EXPECT_NEAR(results[0].at(name), shared.at(name), 1e-5 * (1 + std::abs(value))) << name;
    if (own.as_one) {
      EXPECT_NEAR(shared.at(name), value, 1e-4 * (1 + std::abs(value))) << name;
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1
