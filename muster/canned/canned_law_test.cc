// Canned estimators on any number of replicas: of one process and of several, through
// train_and_evaluate. Tables of categories are row-sparse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_people.h"
#include "muster/canned/internal/test_run.h"
#include "muster/estimator/train_and_evaluate.h"
#include "muster/export/servable.h"
#include "muster/features/resolve.h"
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
  Element batch;
  ASSERT_TRUE(input({}).iterator()->next(&batch));
  Servable::Tensors asked{{"age", batch.at("age").value().tensor().unsqueeze(1)}};
  for (const char* key : {"city/ids", "age_bucketized_X_city/ids"})
    asked[key] = batch.at(key).value().tensor();
  Prediction predicted;
  ASSERT_TRUE(estimator.predict(input, {.yield_single_examples = false}).next(&predicted));
  const auto answer = served.run("predict", asked);
  ASSERT_EQ(answer.size(), predicted.size());
  for (const auto& [key, tensor] : predicted)
    EXPECT_TRUE(torch::allclose(answer.at(key), tensor)) << key;
}

}  // namespace
}  // namespace muster::inline v0_1
