// Elastic runs: workers are lost and come while the others train on, from memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/internal/flawed_data.h"
#include "muster/estimator/testing/test_model.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::examples;
using ::testing::HasSubstr;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::same_bits;
using testing::two_layers;

// What happens to a worker in a test.
struct ScriptedHook final : Hook {
  std::function<void(const RunInfo&)> at_begin;
  std::function<void(int64_t step)> at_step;
  void begin(const RunInfo& info) override {
    if (at_begin) at_begin(info);
  }
  void after_step(const StepInfo& info) override {
    if (at_step) at_step(info.global_step);
  }
};

// Ends a worker as the others see a lost one: the group ends, and it does not come again.
[[noreturn]] void be_lost() { throw Error(ErrorKind::kUnavailable, "lost by the test"); }

class ElasticTest : public ::testing::Test {
 protected:
  RunConfig config(const LocalCluster& cluster, int rank, Transport transport = Transport::kAuto) {
    RunConfig result =
        quiet_config(model_dir,
                     distribute::multi_worker_mirrored(
                         {.local_replicas = local_replicas, .implementation = transport}),
                     cluster.environment(rank));
    result.min_workers = min_workers;
    result.save_checkpoints_steps = 1000;
    return result;
  }

  // Trains on as many workers until `end`.
  void train(int workers, const ModelFn& model, const InputFn& input, int64_t end,
             const json& params = json::object()) {
    const LocalCluster cluster(workers);
    testing::run_ranks(workers, [&](int rank) {
      Estimator estimator(model, config(cluster, rank), params);
      estimator.train(input, {.max_steps = end});
    });
  }

  TempDirectory directory;
  std::string model_dir = directory / "m";
  int min_workers = 0, local_replicas = 1;
};

class ElasticLossTest : public ElasticTest, public ::testing::WithParamInterface<Transport> {};

// After step 7 of four workers one is lost, and three go on: with the bits of a run that was
// stopped there, and continued by three.
TEST_P(ElasticLossTest, TheOthersHaveTheBitsOfARunThatFewerContinue) {
  const json params{{"optimizer", "adam"}, {"dropout", 0.2}};
  const InputFn input = [] {
    return examples(60).shuffle(60).repeat().global_batch(12).prefetch();
  };
  model_dir = directory / "parts";
  train(4, two_layers, input, 7, params);
  train(3, two_layers, input, 20, params);
  const Checkpoint parts = latest(model_dir);

  for (const int lost : {2, 3}) {
    min_workers = 2;
    model_dir = directory / ("elastic" + std::to_string(lost));
    const LocalCluster cluster(4);
    std::atomic<bool> is_made{false};
    testing::run_ranks(4, [&](int rank) {
      Estimator estimator(two_layers, config(cluster, rank, GetParam()), params);
      std::vector<std::pair<int64_t, int>> begun;
      const auto hook = std::make_shared<ScriptedHook>();
      hook->at_begin = [&](const RunInfo& info) {
        begun.emplace_back(info.start_step, info.num_replicas);
      };
      hook->at_step = [&](int64_t step) {
        if (step != 7) return;
        if (rank != lost) {
          is_made = true;
          return;
        }
        // One that is left has made this step too: else they continue after the step before.
        await([&] { return is_made.load(); });
        be_lost();
      };
      const auto whole = [&] {
        const TrainResult result = estimator.train(input, {.max_steps = 20, .hooks = {hook}});
        EXPECT_EQ(result.global_step, 20);
        EXPECT_EQ(result.steps, 20);
      };
      if (rank == lost) {
        EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
        return;
      }
      whole();
      EXPECT_THAT(begun, ElementsAre(std::pair(0, 4), std::pair(7, 3)));
    });
    EXPECT_TRUE(same_bits(latest(model_dir), parts)) << "worker " << lost;
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, ElasticLossTest,
                         ::testing::Values(Transport::kSharedMemory, Transport::kTcp));

// Adds 1 to a number for each use of an example in an update.
EstimatorSpec count_uses(const Features& features, const Labels&, Mode, ModelContext& context) {
  constexpr int64_t kExamples = 96, kBatch = 12;
  const Tensor& uses = context.variable(
      {.name = "uses", .shape = {kExamples}, .initializer = initializers::zeros()});
  const Tensor loss = -uses.index_select(0, features["id"]).mean();
  return EstimatorSpec::train(
      loss, context.optimizer(optim::sgd({.learning_rate = kBatch})).minimize(loss));
}

// Workers are lost and come again, and each example is used once in each of three epochs.
TEST_F(ElasticTest, EachExampleIsUsedOnceWhateverHappens) {
  min_workers = 1;
  const InputFn input = [] {
    return examples(96).shuffle(96).repeat(3).global_batch(12).prefetch();
  };
  const LocalCluster cluster(3);
  // The groups of the chief; the groups when worker 1 was lost; whether it has not come again.
  std::atomic<int> groups{0}, groups_at_loss{0}, most_again{0};
  std::atomic<bool> away{false};
  testing::run_ranks(3, [&](int rank) {
    int calls = 0;
    int64_t joined_at = 0;
    bool is_complete = false;
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_begin = [&](const RunInfo& info) {
      joined_at = info.start_step;
      is_complete = info.start_step > 0 && info.num_replicas == 3;
      if (rank != 0) return;
      ++groups;
      if (info.start_step > 0) most_again = std::max(most_again.load(), info.num_replicas);
    };
    hook->at_step = [&](int64_t step) {
      // Worker 1 is lost twice, worker 2 once, for good, when worker 1 has come again.
      if (rank == 1 && ((calls == 1 && step == 4) || (calls == 2 && step >= joined_at + 4))) {
        groups_at_loss = groups.load();
        away = true;
        be_lost();
      }
      if (rank == 2 && is_complete) be_lost();
      if (rank != 0) return;
      // Time in which worker 1 is noticed when it comes.
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      await([&] { return !away || groups == groups_at_loss; });
    };
    for (bool over = false; !over;) {
      if (++calls > 1) await([&] { return groups > groups_at_loss; });
      if (rank == 1) away = false;
      Estimator estimator(count_uses, config(cluster, rank));
      try {
        const TrainResult result = estimator.train(input, {.hooks = {hook}});
        EXPECT_EQ(result.global_step, 24);
        over = true;
      } catch (const Error& error) {
        EXPECT_THAT(error.message(), HasSubstr("lost by the test"));
        over = rank == 2;
      }
    }
    EXPECT_EQ(calls, rank == 1 ? 3 : 1);
  });
  EXPECT_GE(groups, 5) << "the chief trained in so many groups";
  EXPECT_EQ(most_again, 3) << "worker 1 came again while worker 2 was there";
  const Tensor uses = latest(model_dir).tensors.at("uses");
  EXPECT_NEAR(uses.min().item<double>(), 3, 1e-4);
  EXPECT_NEAR(uses.max().item<double>(), 3, 1e-4);
}

TEST_F(ElasticTest, TheChiefTrainsAloneWhenAllOthersAreLost) {
  min_workers = 1;
  const InputFn input = [] { return examples(60).repeat().global_batch(12); };
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(two_layers, config(cluster, rank));
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_step = [&](int64_t step) {
      if (rank == 1 && step == 5) be_lost();
    };
    const auto whole = [&] { estimator.train(input, {.max_steps = 10, .hooks = {hook}}); };
    if (rank == 0) return whole();
    EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
  });
  EXPECT_EQ(latest(model_dir).global_step, 10);
  const Checkpoint elastic = latest(model_dir);
  min_workers = 0;
  model_dir = directory / "parts";
  train(2, two_layers, input, 5);
  Estimator alone(two_layers,
                  quiet_config(model_dir, distribute::multi_worker_mirrored(), Environment()));
  alone.train(input, {.max_steps = 10});
  EXPECT_TRUE(same_bits(elastic, latest(model_dir)));
}

TEST_F(ElasticTest, WorkersOfSeveralReplicasGoOnToo) {
  min_workers = 1;
  local_replicas = 2;
  const InputFn input = [] { return examples(96).shuffle(96).repeat(2).global_batch(12); };
  const LocalCluster cluster(3);
  testing::run_ranks(3, [&](int rank) {
    Estimator estimator(count_uses, config(cluster, rank));
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_step = [&](int64_t step) {
      if (rank == 1 && step == 5) be_lost();
    };
    const auto whole = [&] { estimator.train(input, {.hooks = {hook}}); };
    if (rank != 1) return whole();
    EXPECT_EQ(error_of(whole).kind(), ErrorKind::kUnavailable);
  });
  EXPECT_EQ(latest(model_dir).global_step, 16);
  const Tensor uses = latest(model_dir).tensors.at("uses");
  EXPECT_NEAR(uses.min().item<double>(), 2, 1e-4);
  EXPECT_NEAR(uses.max().item<double>(), 2, 1e-4);
}

// One step is skipped before worker 1 is lost, another one after it.
TEST_F(ElasticTest, TheLimitOfNonFiniteStepsHoldsOverChanges) {
  min_workers = 1;
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    RunConfig run = config(cluster, rank);
    run.non_finite = NonFinitePolicy::kSkip;
    run.non_finite_limit = 1;
    Estimator estimator(testing::batch_normalized, run);
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_step = [&](int64_t step) {
      if (rank == 1 && step == 3) be_lost();
    };
    const Error error = error_of([&] {
      estimator.train(testing::flawed_batches({}, {1, 6}), {.hooks = {hook}});
    });
    if (rank == 1) return;
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_THAT(error.message(), HasSubstr("it is number 2 of this run"));
  });
}

// A run that something else than its steps ends.
void train_on(Estimator& estimator, const std::shared_ptr<ScriptedHook>& hook) {
  estimator.train([] { return examples(60).repeat().global_batch(12); },
                  {.max_steps = 1000, .hooks = {hook}});
}

TEST_F(ElasticTest, ALostChiefEndsTheRunAndIsNamed) {
  min_workers = 1;
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(two_layers, config(cluster, rank));
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_step = [&](int64_t step) {
      if (rank == 0 && step == 5) be_lost();
    };
    const Error error = error_of([&] { train_on(estimator, hook); });
    if (rank == 0) return;
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.message(), HasSubstr("worker 0 "));
  });
}

// What would be wrong again with fewer workers ends the run.
TEST_F(ElasticTest, AMistakeOfAWorkerEndsTheRun) {
  min_workers = 1;
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(two_layers, config(cluster, rank));
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_step = [&](int64_t step) {
      if (rank == 1 && step == 5) throw invalid_argument("a mistake in the program");
    };
    const Error error = error_of([&] { train_on(estimator, hook); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("a mistake in the program"));
  });
}

// Worker 1 is lost, and comes again as the process of another program.
class ElasticNewcomerTest : public ElasticTest,
                            public ::testing::WithParamInterface<const char*> {};

TEST_P(ElasticNewcomerTest, ThatDiffersIsRefusedAlone) {
  constexpr int64_t kEnd = 1500;
  min_workers = 1;
  const InputFn input = [] { return examples(60).repeat().global_batch(12); };
  const bool other_model = std::string(GetParam()) == "model";
  const LocalCluster cluster(2);
  std::atomic<int> groups{0};
  std::atomic<bool> refused{false};
  testing::run_ranks(2, [&](int rank) {
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_begin = [&](const RunInfo&) { groups += rank == 0 ? 1 : 0; };
    hook->at_step = [&](int64_t step) {
      if (rank == 1 && step == 3) be_lost();
      // Steps in which the newcomer is noticed.
      if (rank == 0 && !refused) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    };
    const auto train = [&](const ModelFn& model, const json& params) {
      Estimator estimator(model, config(cluster, rank), params);
      return estimator.train(input, {.max_steps = kEnd, .hooks = {hook}}).global_step;
    };
    if (rank == 0) {
      EXPECT_EQ(train(two_layers, json::object()), kEnd);
      return;
    }
    EXPECT_EQ(error_of([&] { train(two_layers, json::object()); }).kind(), ErrorKind::kUnavailable);
    await([&] { return groups == 2; });
    const Error error = error_of([&] {
      other_model ? train(count_uses, json::object()) : train(two_layers, {{"dropout", 0.5}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(other_model ? "its model differs" : "params"));
    refused = true;
  });
  EXPECT_TRUE(refused);
  EXPECT_EQ(groups, 3) << "with it, without it, and without it again";
  EXPECT_EQ(latest(model_dir).global_step, kEnd);
}

INSTANTIATE_TEST_SUITE_P(Differences, ElasticNewcomerTest, ::testing::Values("settings", "model"));

class ElasticEvaluationTest : public ElasticTest, public ::testing::WithParamInterface<bool> {};

// Each step is saved and evaluated, by the chief or by all workers, those steps included at which a
// worker is lost or comes. In between the chief is the only worker.
TEST_P(ElasticEvaluationTest, AnEvaluationAtAChangeIsMade) {
  constexpr int64_t kEnd = 40;
  min_workers = 1;
  const LocalCluster cluster(2);
  std::vector<int64_t> evaluated;  // the chief's
  std::atomic<int> groups{0};
  testing::run_ranks(2, [&](int rank) {
    int calls = 0;
    struct Evaluated final : Hook {
      explicit Evaluated(std::vector<int64_t>& steps) : steps(steps) {}
      void after_evaluate(int64_t step, const std::string&,
                          const std::map<std::string, double>&) override {
        steps.push_back(step);
      }
      std::vector<int64_t>& steps;
    };
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_begin = [&](const RunInfo&) { groups += rank == 0 ? 1 : 0; };
    hook->at_step = [&](int64_t step) {
      if (rank == 1 && calls == 1 && step == 5) be_lost();
      // Steps in which the newcomer is noticed.
      if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    while (++calls <= 2) {
      RunConfig run = config(cluster, rank);
      run.save_checkpoints_steps = 1;
      if (GetParam()) run.eval_distribute = run.train_distribute;
      Estimator estimator(two_layers, run);
      TrainSpec train{.input_fn = [] { return examples(60).repeat().global_batch(12); },
                      .max_steps = kEnd,
                      .hooks = {hook}};
      if (rank == 0) train.hooks.push_back(std::make_shared<Evaluated>(evaluated));
      const auto call = [&] {
        train_and_evaluate(estimator, train,
                           EvalSpec{.input_fn = [] { return examples(24).batch(12); },
                                    .throttle_secs = Seconds(0)});
      };
      if (rank == 0) return call();
      if (calls == 2) return call();
      EXPECT_EQ(error_of(call).kind(), ErrorKind::kUnavailable);
      await([&] { return groups == 2; });
    }
  });
  EXPECT_EQ(groups, 3);
  std::vector<int64_t> all(kEnd);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(evaluated, all);
}

INSTANTIATE_TEST_SUITE_P(ByChiefOrAll, ElasticEvaluationTest, ::testing::Bool());

// Too few workers are left, and none comes.
TEST_F(ElasticTest, TheChiefSavesWhatItRemembers) {
  min_workers = 2;
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    RunConfig run = config(cluster, rank);
    run.join_timeout = Seconds(1);
    Estimator estimator(two_layers, run);
    const auto hook = std::make_shared<ScriptedHook>();
    hook->at_step = [&](int64_t step) {
      if (rank == 1 && step == 5) be_lost();
    };
    const Error error = error_of([&] {
      estimator.train([] { return examples(60).repeat().global_batch(12); },
                      {.max_steps = 10, .hooks = {hook}});
    });
    EXPECT_EQ(error.kind(), rank == 0 ? ErrorKind::kTimeout : ErrorKind::kUnavailable);
  });
  const Checkpoint remembered = latest(model_dir);
  EXPECT_EQ(remembered.global_step, 5);
  min_workers = 0;
  model_dir = directory / "whole";
  train(
      2, two_layers, [] { return examples(60).repeat().global_batch(12); }, 5);
  EXPECT_TRUE(same_bits(remembered, latest(model_dir)));
  EXPECT_EQ(remembered.inputs, latest(model_dir).inputs);
}

TEST_F(ElasticTest, DataThatEachWorkerReadsByItselfIsRefused) {
  min_workers = 1;
  const LocalCluster cluster(2);
  testing::run_ranks(2, [&](int rank) {
    Estimator estimator(two_layers, config(cluster, rank));
    const Error error = error_of([&] {
      estimator.train(InputFn([](const InputContext&) { return examples(60).batch(6); }),
                      {.max_steps = 5});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("not supported: an elastic run with data"));
  });
}

TEST_F(ElasticTest, MoreWorkersThanTheClusterHasCannotBeTheMinimum) {
  min_workers = 3;
  const LocalCluster cluster(2);
  Estimator estimator(two_layers, config(cluster, 0));
  const Error error = error_of(
      [&] { estimator.train([] { return examples(60).global_batch(12); }, {.max_steps = 5}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("at least 3 workers"));
}

}  // namespace
}  // namespace muster::inline v0_1
