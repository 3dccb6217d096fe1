// ClusterCoordinator for training in epochs: divided data, an initial state, notes next to
// checkpoints. Each task is a thread with its own TF_CONFIG.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/base/uri.h"
#include "muster/calls/cluster_coordinator.h"
#include "muster/files/testing/memory_store.h"
#include "muster/layers/dense.h"
#include "muster/layers/regularizers.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using muster::testing::LocalCluster;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Trains a line on `data`; the first result of a call is the first number of each row.
struct Tasks {
  int workers = 1;
  Dataset data = points(40).batch(8);
  CoordinatorOptions options = {};
};

// A test's environment with a job's name.
Environment named(const Environment& environment, const std::string& job) {
  return Environment({{"TF_CONFIG", environment.get_or("TF_CONFIG", "")}, {"MUSTER_JOB_ID", job}});
}

using Chief = std::function<void(ClusterCoordinator&, const RemoteFunctionName& step)>;

void run_cluster(const Tasks& tasks, const Chief& chief) {
  const LocalCluster cluster(1 + tasks.workers, /*chief=*/true, /*servers=*/1);
  muster::testing::run_ranks(tasks.workers + 2, [&](int task) {
    CoordinatorOptions options = tasks.options;
    options.environment =
        task <= tasks.workers ? cluster.environment(task) : cluster.server_environment(0);
    options.cancelled = [] { return false; };
    const Layer model = Dense(1, {.kernel_regularizer = regularizers::l2(0.1)});
    const auto adam = optim::adam({.learning_rate = 0.05});
    ClusterCoordinator coordinator(parameter_server(), options);
    const auto step = coordinator.define("step",
                                         [&](const RemoteCall& call) -> std::vector<Tensor> {
                                           const Tensor& x = call.batch().features;
                                           const Tensor loss = losses::mean_squared_error(
                                               call.batch().labels, model(x));
                                           adam.minimize(loss);
                                           return {x.select(1, 0), loss};
                                         },
                                         {.training = true,
                                          .data = coordinator.distribute("data", tasks.data),
                                          .returns_step_loss = true});
    if (coordinator.serve()) return;
    chief(coordinator, step);
  });
}

std::vector<std::vector<Tensor>> results_of(ClusterCoordinator& coordinator,
                                            const RemoteFunctionName& step, int calls) {
  std::vector<RemoteValue> values;
  for (int i = 0; i < calls; ++i) values.push_back(coordinator.schedule(step));
  std::vector<std::vector<Tensor>> results;
  for (const RemoteValue& value : values) results.push_back(coordinator.fetch(value));
  return results;
}

std::vector<float> first_numbers(const std::vector<std::vector<Tensor>>& results) {
  std::vector<float> numbers;
  for (const auto& result : results) {
    const float* const row = result.at(0).data_ptr<float>();
    numbers.insert(numbers.end(), row, row + result.at(0).numel());
  }
  return numbers;
}

// 5 batches are a pass, and the worker then begins the next one.
TEST(CoordinatorState, OneWorkerReadsWhatALoopReads) {
  const Dataset data = points(36).shuffle(36).batch(8);
  std::vector<float> expected;
  {
    const auto strategy = one_device();
    const auto scope = strategy->scope(alone(/*seed=*/7));
    for (const auto& batch : strategy->distribute(data.repeat(2))) {
      const Tensor x = batch[0].features;
      for (int64_t row = 0; row < x.size(0); ++row) expected.push_back(x[row][0].item<float>());
    }
  }
  run_cluster({.data = data, .options = {.seed = 7}},
              [&](ClusterCoordinator& coordinator, const RemoteFunctionName& step) {
                EXPECT_EQ(first_numbers(results_of(coordinator, step, 10)), expected);
              });
}

// 36 rows in batches of 8 for two workers: the second one has none of the last four.
TEST(CoordinatorState, WorkersReadPartsThatMakeUpTheData) {
  std::set<float> read;
  run_cluster({.workers = 2, .data = points(36).batch(8)},
              [&](ClusterCoordinator& coordinator, const RemoteFunctionName& step) {
                // A fast worker makes more calls: as many as leave none unread.
                while (read.size() < 36) {
                  for (const auto& result : results_of(coordinator, step, 8)) {
                    EXPECT_GT(result.at(0).numel(), 0);
                    for (const float number : first_numbers({result})) read.insert(number);
                  }
                }
              });
  EXPECT_EQ(read.size(), 36u);
}

TEST(CoordinatorState, AWorkerWithoutAPartSaysSo) {
  run_cluster({.workers = 2, .data = points(3).batch(8)},
              [&](ClusterCoordinator& coordinator, const RemoteFunctionName& step) {
                const Error error = error_of([&] {
                  // The worker that has all rows ends calls until the other one has come.
                  for (;;) {
                    (void)coordinator.schedule(step);
                    coordinator.join();
                  }
                });
                EXPECT_THAT(error.message(), HasSubstr("has no part of the data set \"data\""));
              });
}

TEST(CoordinatorState, TheLossOfAStepHasWhatRegularizersAdd) {
  run_cluster({}, [&](ClusterCoordinator& coordinator, const RemoteFunctionName& step) {
    const Tensor kernel = coordinator.variable("dense/kernel");
    EXPECT_EQ(error_of([&] { coordinator.variable("dense/kernal"); }).hint(),
              "did you mean 'dense/kernel'?");
    const std::vector<Tensor> result = results_of(coordinator, step, 1).at(0);
    ASSERT_EQ(result.size(), 3u);
    EXPECT_NEAR(result[2].item<double>(),
                result[1].item<double>() + 0.1 * kernel.square().sum().item<double>(), 1e-6);
  });
}

// Missing state is made anew: the slots here.
TEST(CoordinatorState, ARunBeginsWithTheStateItIsGiven) {
  Checkpoint given{.global_step = 30};
  given.tensors["dense/kernel"] = torch::tensor({2.5, -1.5}, kFloat32).view({2, 1});
  run_cluster({.options = {.initial_state = given}}, [&](ClusterCoordinator& coordinator,
                                                         const RemoteFunctionName& step) {
    EXPECT_EQ(coordinator.step(), 30);
    const Checkpoint before = coordinator.state();
    EXPECT_EQ(before.global_step, 30);
    EXPECT_TRUE(before.tensors.at("dense/kernel").equal(given.tensors.at("dense/kernel")));
    EXPECT_GT(before.tensors.size(), 2u);
    results_of(coordinator, step, 3);
    const Checkpoint state = coordinator.state();
    EXPECT_EQ(state.global_step, 33);
    EXPECT_TRUE(state.tensors.at("dense/bias").equal(coordinator.variable("dense/bias")));
  });
}

TEST(CoordinatorState, NotesAreKeptWithACheckpointWhichGoesBeforeAGivenState) {
  const TempDirectory directory;
  int saves = 0;
  const CoordinatorOptions options{
      .model_dir = directory / "model",
      .initial_state = Checkpoint{.global_step = 5},
      .notes = [&] {
        return std::map<std::string, std::string>{{"saves", std::to_string(++saves)}};
      }};
  run_cluster({.options = options},
              [&](ClusterCoordinator& coordinator, const RemoteFunctionName& step) {
                EXPECT_TRUE(coordinator.restored_notes().empty());
                results_of(coordinator, step, 2);
                coordinator.save();
                results_of(coordinator, step, 2);
                coordinator.save();
              });
  run_cluster({.options = options},
              [&](ClusterCoordinator& coordinator, const RemoteFunctionName&) {
                EXPECT_EQ(coordinator.step(), 9);
                EXPECT_THAT(coordinator.restored_notes(), ElementsAre(Pair("saves", "2")));
              });
}

// It is killed after the end, and started again, when no servers exist any more; also if model_dir
// is a bucket.
class EndedRun : public ::testing::TestWithParam<const char*> {};

TEST_P(EndedRun, LeavesAChiefThatIsStartedAgainNothingToDo) {
  const TempDirectory directory;
  memory_store().clear();
  const std::string model_dir = is_remote(GetParam()) ? GetParam() : directory / GetParam();
  const LocalCluster cluster(2, /*chief=*/true, /*servers=*/1);
  const auto serve = [&](int task, const std::string& job, double join_timeout) {
    const Layer model = Dense(1);
    const auto sgd = optim::sgd({.learning_rate = 0.05});
    ClusterCoordinator coordinator(
        parameter_server(),
        {.model_dir = model_dir,
         .join_timeout = Seconds(join_timeout),
         .cancelled = [] { return false; },
         .environment =
             named(task < 2 ? cluster.environment(task) : cluster.server_environment(0), job)});
    const auto step = coordinator.define(
        "step",
        [&](const RemoteCall& call) -> std::vector<Tensor> {
          const Tensor& x = call.batch().features;
          sgd.minimize(losses::mean_squared_error(call.batch().labels, model(x)));
          return {};
        },
        {.training = true, .data = coordinator.distribute("data", points(40).batch(8))});
    if (coordinator.serve()) return true;
    coordinator.schedule(step);
    coordinator.join();
    return false;
  };
  muster::testing::run_ranks(
      3, [&](int task) { EXPECT_EQ(serve(task, "job 1", /*join_timeout=*/30), task != 0); });
  EXPECT_TRUE(serve(0, "job 1", /*join_timeout=*/0.3));
  // Another run waits for servers of its own.
  EXPECT_EQ(error_of([&] { (void)serve(0, "job 2", /*join_timeout=*/0.3); }).kind(),
            ErrorKind::kTimeout);
  memory_store().clear();
}

INSTANTIATE_TEST_SUITE_P(OnADiskAndInABucket, EndedRun,
                         ::testing::Values("model", "mem://coordinator/run"));

}  // namespace
}  // namespace muster::inline v0_1::distribute
