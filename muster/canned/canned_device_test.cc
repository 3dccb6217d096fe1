// Canned estimators on devices that are not the CPU: stand-ins whose tensors mix with no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/temp_directory.h"
#include "muster/canned/internal/test_people.h"
#include "muster/canned/internal/test_run.h"
#include "muster/canned/kmeans.h"
#include "muster/canned/rnn.h"
#include "muster/estimator/train_and_evaluate.h"
#include "muster/features/resolve.h"
#include "muster/features/sequence_column.h"
#include "tests/support/test_device.h"

namespace muster::inline v0_1 {
namespace {

using testing::estimators;
using testing::people;
using testing::test_device;

class CannedDeviceTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Each, CannedDeviceTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, make] : estimators()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

// Features are resolved in the pipeline, or in the step.
TEST_P(CannedDeviceTest, DevicesComputeWhatTheCpuComputes) {
  const TempDirectory directory;
  const auto to_numbers = feature_column::resolve(testing::PeopleColumns().all());
  std::vector<EvalResult> results;
  const auto trained = [&](const char* name, const distribute::StrategyPtr& strategy,
                           bool resolved) {
    RunConfig config = testing::run_config(directory / name);
    config.train_distribute = config.eval_distribute = strategy;
    Estimator estimator = estimators().at(GetParam())(config);
    const auto input = [&](const Dataset& batches) {
      return resolved ? batches.map(to_numbers) : batches;
    };
    results.push_back(
        train_and_evaluate(
            estimator, {.input_fn = [&] { return input(people(47).repeat(2).global_batch(11)); }},
            {.input_fn = [&] { return input(people(47).batch(10)); }, .steps = std::nullopt})
            .value());
    return estimator;
  };
  const Estimator cpu = trained("cpu", nullptr, true);
  const Estimator one = trained("one", distribute::one_device(test_device(1).str()), true);
  const Estimator two = trained(
      "two", distribute::mirrored({.devices = {test_device(0).str(), test_device(2).str()}}),
      false);
  EXPECT_LT(testing::largest_distance(one, cpu), 1e-4);
  EXPECT_LT(testing::largest_distance(two, cpu), 1e-4);
  for (const auto& [name, value] : results[0]) {
    EXPECT_NEAR(results[1].at(name), value, 1e-4 * (1 + std::abs(value))) << name;
    EXPECT_NEAR(results[2].at(name), value, 1e-4 * (1 + std::abs(value))) << name;
  }
}

// Sums over replicas, chosen centers, and steps that count are where the batches are.
TEST(CannedOnDevicesTest, ClustersAndSequencesAreThoseOfTheCpu) {
  const TempDirectory directory;
  const Tensor number = torch::arange(48).to(kFloat32);
  const Tensor points = torch::stack({number % 3 * 9 + number.sin(), number.cos()}, 1);
  const Element visits = Element::tuple(
      {Element::dict(
           {{"page", torch::stack({number % 5, torch::where(number % 2 == 0, number % 3, -1)}, 1)
                         .to(kInt64)}}),
       torch::stack({number % 2, number % 3 % 2}, 1).to(kInt64)});
  const distribute::StrategyPtr devices =
      distribute::mirrored({.devices = {test_device(0).str(), test_device(2).str()}});
  const auto distance = [&](const std::string& name, const testing::MakeEstimator& make,
                            const Element& rows) {
    const auto trained = [&](const char* where, const distribute::StrategyPtr& strategy) {
      RunConfig config = testing::run_config(directory / (name + where));
      config.train_distribute = strategy;
      Estimator estimator = make(config);
      estimator.train([=] { return Dataset::from_tensor_slices(rows).repeat().global_batch(20); },
                      {.max_steps = 6});
      return estimator;
    };
    return testing::largest_distance(trained("devices", devices), trained("cpu", nullptr));
  };
  const auto kmeans = [](RunConfig config) {
    return KMeansClustering(
        {.num_clusters = 3, .initial_clusters = "kmeans_plus_plus", .relative_tolerance = 1e-12},
        config);
  };
  EXPECT_LT(distance("kmeans", kmeans, points), 1e-4);
  const auto rnn = [](RunConfig config) {
    return RNNClassifier(
        {.sequence_feature_columns = {feature_column::embedding_column(
             feature_column::sequence_categorical_column_with_identity("page", 5), 3)},
         .units = {4},
         .return_sequences = true},
        config);
  };
  EXPECT_LT(distance("rnn", rnn, visits), 1e-4);
}

}  // namespace
}  // namespace muster::inline v0_1
