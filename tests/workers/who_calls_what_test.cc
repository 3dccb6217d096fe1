// The table "Who calls what" of docs/strategies.md: each call that all workers make, made by the
// chief alone, ends at once with an error that names it; each that one may make alone, works.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/keras/model.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/scope.h"
#include "muster/metrics/metrics.h"
#include "muster/trees/boosted_trees.h"
#include "tests/support/local_cluster.h"
#include "tests/support/process_tasks.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using distribute::StrategyPtr;
using ::testing::AllOf;
using testing::examples;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::loss_of;
using testing::run_ranks;

// Far below every limit of a wait.
constexpr std::chrono::milliseconds kAtOnce = 30s;

void expect_names(const Error& error, const std::string& call, const std::string& other) {
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
  EXPECT_EQ(exit_code(error.kind()), 2);
  EXPECT_THAT(error.what(), HasSubstr("worker 0 to " + call));
  EXPECT_THAT(error.what(), HasSubstr("worker 1 to " + other));
  EXPECT_THAT(error.hint(), HasSubstr("Who calls what"));
}

// Two workers in a loop of their own that has made two steps.
struct InLoop {
  const StrategyPtr& strategy;
  const distribute::Scope& scope;
  const Dataset& data;
  const std::string& folder;
};
using LoopCall = std::function<void(const InLoop&)>;

void run_loops(const std::function<void(int rank, const InLoop&)>& then) {
  const TempDirectory folder;
  const LocalCluster cluster(2);
  run_ranks(
      2,
      [&](int rank) {
        const StrategyPtr strategy = distribute::multi_worker_mirrored();
        const auto scope = strategy->scope({.environment = cluster.environment(rank)});
        const Layer model = Dense(2);
        const auto sgd = optim::sgd({.learning_rate = 0.1});
        const Dataset data = examples(24).batch(12);
        for (const auto& batch : strategy->distribute(data)) {
          strategy->run(
              [&](const Features& features, const Labels& labels) {
                sgd.minimize(loss_of(model(features["x"]), labels));
              },
              batch);
        }
        then(rank, {strategy, scope, data, folder.path()});
      },
      kAtOnce);
}

distribute::PerReplica<Tensor> ones() {
  return distribute::PerReplica<Tensor>(std::deque<Tensor>{torch::ones({1})});
}

const std::map<std::string, LoopCall>& loop_calls() {
  static const auto* const calls = new std::map<std::string, LoopCall>{
      {"strategy->reduce()",
       [](const InLoop& in) { in.strategy->reduce(distribute::ReduceOp::kSum, ones()); }},
      {"strategy->gather()", [](const InLoop& in) { in.strategy->gather(ones(), 0); }},
      {"a pass over a distributed data set",
       [](const InLoop& in) {
         for (const auto& batch : in.strategy->distribute(in.data)) (void)batch;
       }},
      {"Scope::save()", [](const InLoop& in) { in.scope.save(in.folder); }},
      {"Scope::assign()",
       [](const InLoop& in) {
         in.scope.assign({{"dense/kernel", torch::zeros({testing::kFeatures, 2})}});
       }},
      {"Scope::stop()", [](const InLoop& in) { in.scope.stop(); }},
  };
  return *calls;
}

class LoopCalls : public ::testing::TestWithParam<std::string> {};

TEST_P(LoopCalls, OfTheChiefAloneAreNamed) {
  std::atomic<int> told{0};
  run_loops([&](int rank, const InLoop& in) {
    if (rank != 0) return;
    expect_names(error_of([&] { loop_calls().at(GetParam())(in); }), GetParam(),
                 "the end of its scope");
    ++told;
  });
  EXPECT_EQ(told, 1);
}

std::vector<std::string> names_of_loop_calls() {
  std::vector<std::string> names;
  for (const auto& [name, call] : loop_calls()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Each, LoopCalls, ::testing::ValuesIn(names_of_loop_calls()),
                         [](const auto& info) { return fmt::format("Call{}", info.index); });

// Here the message names the call of its own worker alone.
TEST(LoopCalls, RunOfTheChiefAloneIsNamed) {
  run_loops([](int rank, const InLoop& in) {
    if (rank != 0) return;
    const Error error =
        error_of([&] { in.strategy->run({.training = false}, [] { return torch::ones({1}); }); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("strategy->run() has returned on worker 0, and "
                                           "another replica is elsewhere"));
  });
}

TEST(LoopCalls, OfOtherValuesAreNamed) {
  std::atomic<int> told{0};
  run_loops([&](int rank, const InLoop& in) {
    const Error error = error_of([&] {
      in.scope.assign({{"dense/bias", torch::full({2}, static_cast<double>(rank))}});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("what Scope::assign() was given is of 1 variables"));
    ++told;
  });
  EXPECT_EQ(told, 2);
}

TEST(LoopCalls, RestoreOfTheChiefAloneIsNamed) {
  const TempDirectory folder;
  const LocalCluster cluster(2);
  run_ranks(
      2,
      [&](int rank) {
        const StrategyPtr strategy = distribute::multi_worker_mirrored();
        const auto scope = strategy->scope({.environment = cluster.environment(rank)});
        if (rank == 0) {
          expect_names(error_of([&] { scope.restore(folder.path()); }), "Scope::restore()",
                       "the end of its scope");
        }
      },
      kAtOnce);
}

TEST(LoopCalls, ThatOneWorkerMayMakeAloneMeetNobody) {
  run_loops([&](int rank, const InLoop& in) {
    if (rank != 0) return;
    EXPECT_TRUE(in.scope.is_chief());
    EXPECT_EQ(in.scope.step(), 2);
    EXPECT_EQ(in.scope.last_step().rows, 12);
    EXPECT_EQ(in.scope.variable("dense/kernel").size(1), 2);
    EXPECT_EQ(in.scope.variable_names().size(), 2u);
    EXPECT_FALSE(in.scope.should_stop());
    EXPECT_EQ(in.scope.state().tensors.at("dense/kernel").size(1), 2);
  });
}

struct Points {
  Tensor x;  // float32 [16, 4]
  Tensor y;  // int64 [16]
};
Points sixteen_points() {
  const Tensor x = torch::arange(64).to(kFloat32).sin().view({16, 4});
  return {x, (x.select(1, 0) > x.select(1, 1)).to(kInt64)};
}

// Two workers with a Keras model that has trained.
using ModelCall = std::function<void(keras::Model&, const std::string& folder)>;

void run_models(
    const std::function<void(int rank, keras::Model&, const std::string& folder)>& then) {
  const TempDirectory folder;
  const LocalCluster cluster(2);
  const Points some = sixteen_points();
  run_ranks(
      2,
      [&](int rank) {
        keras::Model model(Sequential({Dense(8), Dense(2)}),
                           {.name = "of_" + std::to_string(rank),
                            .strategy = distribute::multi_worker_mirrored(),
                            .seed = 3,
                            .environment = cluster.environment(rank)});
        model.compile({.optimizer = "adam",
                       .loss = keras::SparseCategoricalCrossentropy({.from_logits = true}),
                       .metrics = {"accuracy"}});
        model.fit(some.x, some.y, {.batch_size = 8, .verbose = keras::Verbose::kSilent});
        model.save(folder / "saved");
        model.save_weights(folder / "saved.safetensors");
        then(rank, model, folder.path());
      },
      kAtOnce);
}

const std::map<std::string, ModelCall>& model_calls() {
  static const Points some = sixteen_points();
  static const auto* const calls = new std::map<std::string, ModelCall>{
      {"Model::fit()", [](keras::Model& model,
                          const std::string&) { model.fit(some.x, some.y, {.batch_size = 8}); }},
      {"Model::evaluate()",
       [](keras::Model& model, const std::string&) { model.evaluate(some.x, some.y); }},
      {"Model::predict()", [](keras::Model& model, const std::string&) { model.predict(some.x); }},
      {"Model::test_on_batch()",
       [](keras::Model& model, const std::string&) { model.test_on_batch(some.x, some.y); }},
      {"Model::save()",
       [](keras::Model& model, const std::string& folder) { model.save(folder + "/m"); }},
      {"Model::load()",
       [](keras::Model& model, const std::string& folder) { model.load(folder + "/saved"); }},
      {"Model::save_weights()",
       [](keras::Model& model, const std::string& folder) {
         model.save_weights(folder + "/w.safetensors");
       }},
      {"Model::load_weights()",
       [](keras::Model& model, const std::string& folder) {
         model.load_weights(folder + "/saved.safetensors");
       }},
      {"Model::set_weights()",
       [](keras::Model& model, const std::string&) {
         model.set_weights({{"dense/kernel", torch::zeros({4, 8})}});
       }},
  };
  return *calls;
}

class ModelCalls : public ::testing::TestWithParam<std::string> {};

TEST_P(ModelCalls, OfTheChiefAloneAreNamed) {
  std::atomic<int> told{0};
  run_models([&](int rank, keras::Model& model, const std::string& folder) {
    if (rank != 0) return;
    expect_names(error_of([&] { model_calls().at(GetParam())(model, folder); }), GetParam(),
                 "the end of its scope");
    ++told;
  });
  EXPECT_EQ(told, 1);
}

std::vector<std::string> names_of_model_calls() {
  std::vector<std::string> names;
  for (const auto& [name, call] : model_calls()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Each, ModelCalls, ::testing::ValuesIn(names_of_model_calls()),
                         [](const auto& info) { return fmt::format("Call{}", info.index); });

// Here the message names the call of its own worker alone.
TEST(ModelCalls, AStepOfTheChiefAloneIsNamed) {
  const Points some = sixteen_points();
  run_models([&](int rank, keras::Model& model, const std::string&) {
    if (rank != 0) return;
    const Error error = error_of([&] { model.train_on_batch(some.x, some.y); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(),
                HasSubstr("worker 0 is in the update of a step, in run() or fit()"));
  });
}

TEST(ModelCalls, ThatOneWorkerMayMakeAloneMeetNobody) {
  run_models([&](int rank, keras::Model& model, const std::string& folder) {
    if (rank != 0) return;
    EXPECT_TRUE(model.is_chief());
    EXPECT_EQ(model.name(), "of_0");
    EXPECT_EQ(model.step(), 2);
    EXPECT_THAT(model.summary(), HasSubstr("dense"));
    EXPECT_GT(model.learning_rate(), 0);
    (void)model.graph();
    EXPECT_EQ(model.get_weights().size(), 4u);
    EXPECT_THAT(model.export_model(folder + "/exports"), HasSubstr("/exports/"));
  });
}

// The call waits for no other worker, and changes what one worker trains.
TEST(ModelCalls, ALearningRateOfTheChiefAloneIsNamed) {
  std::atomic<int> told{0};
  run_models([&](int rank, keras::Model& model, const std::string&) {
    if (rank == 0) model.set_learning_rate(0.5);
    const Points some = sixteen_points();
    const Error error = error_of(
        [&] { model.fit(some.x, some.y, {.batch_size = 8, .verbose = keras::Verbose::kSilent}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("workers have different learning rates"));
    EXPECT_THAT(error.hint(), HasSubstr("every worker calls set_learning_rate()"));
    ++told;
  });
  EXPECT_EQ(told, 2);
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  return testing::two_layers(features, labels, mode, context);
}

RunConfig config_of(const std::string& model_dir, const Environment& environment) {
  RunConfig config =
      testing::quiet_config(model_dir, distribute::multi_worker_mirrored(), environment);
  config.eval_distribute = distribute::multi_worker_mirrored();
  return config;
}

Dataset some_batches() { return examples(24).batch(12); }

// Both have trained; then each reaches a call of its own, and waits this long for the other.
std::map<int, Error> errors_after_training(double seconds,
                                           const std::function<void(int rank, Estimator&)>& then) {
  const TempDirectory folder;
  const LocalCluster cluster(2);
  std::mutex mutex;
  std::map<int, Error> errors;
  run_ranks(
      2,
      [&](int rank) {
        RunConfig config = config_of(folder / "m", cluster.environment(rank));
        Estimator(model_fn, config).train(some_batches, {.max_steps = 2});
        config.join_timeout = Seconds(seconds);
        Estimator estimator(model_fn, config);
        try {
          then(rank, estimator);
        } catch (const Error& error) {
          const std::lock_guard lock(mutex);
          errors.emplace(rank, error);
        }
      },
      kAtOnce);
  return errors;
}

TEST(EstimatorCalls, OfTheChiefAloneEndWithinTheirBoundAndAreNamed) {
  const std::map<std::string, std::function<void(Estimator&)>> calls{
      {"Estimator::evaluate()", [](Estimator& estimator) { estimator.evaluate(some_batches); }},
      {"Estimator::train()",
       [](Estimator& estimator) { estimator.train(some_batches, {.max_steps = 4}); }}};
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const auto errors = errors_after_training(1, [&call = call](int rank, Estimator& estimator) {
      if (rank == 0) call(estimator);
    });
    ASSERT_EQ(errors.size(), 1u);
    const Error& error = errors.at(0);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(),
                AllOf(HasSubstr("worker 0 waited 1 s in " + name), HasSubstr("worker 1")));
    EXPECT_THAT(error.hint(), HasSubstr("Who calls what"));
  }
}

TEST(EstimatorCalls, ThatDifferAreNamedAtOnce) {
  const auto errors = errors_after_training(60, [](int rank, Estimator& estimator) {
    if (rank == 0) {
      estimator.evaluate(some_batches);
    } else {
      estimator.train(some_batches, {.max_steps = 4});
    }
  });
  ASSERT_EQ(errors.size(), 2u);
  // The quicker one notifies the other one.
  for (const auto& [rank, error] : errors) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("worker 0 to Estimator::evaluate()"),
                                    HasSubstr("worker 1 to Estimator::train()")));
  }
}

// The limit is ten minutes here: that the other process has ended is seen.
TEST(EstimatorCalls, AProcessThatHasEndedIsNotWaitedFor) {
  LocalCluster cluster(2);
  testing::Settings environments;
  for (int rank : {0, 1}) {
    environments.emplace(std::to_string(rank), *cluster.environment(rank).get("TF_CONFIG"));
  }
  testing::ProcessTasks tasks(
      2,
      [](testing::Task& task) {
        const Environment environment({{"TF_CONFIG", task.setting(std::to_string(task.rank()))}});
        RunConfig config = config_of(task.directory() + "/m", environment);
        config.join_timeout = Seconds(600);
        Estimator estimator(model_fn, config);
        estimator.train(some_batches, {.max_steps = 2});
        if (task.rank() != 0) return;
        const Error error = error_of([&] { estimator.evaluate(some_batches); });
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
        EXPECT_THAT(error.message(), HasSubstr("worker 1 does not come: its process has ended "
                                               "without Estimator::evaluate()"));
        EXPECT_THAT(error.hint(), HasSubstr("Who calls what"));
      },
      {.settings = environments});
  EXPECT_EQ(tasks.wait(1), 0) << tasks.output(1);
  EXPECT_EQ(tasks.wait(0, 60s), 0) << tasks.output(0);
}

TEST(EstimatorCalls, ThatOneWorkerMayMakeAloneMeetNobody) {
  const auto errors = errors_after_training(60, [](int rank, Estimator& estimator) {
    if (rank != 0) return;
    EXPECT_FALSE(estimator.get_variable_names().empty());
    (void)estimator.get_variable_value(estimator.get_variable_names().front());
    EXPECT_TRUE(estimator.latest_checkpoint());
    Predictions predictions = estimator.predict(some_batches);
    EXPECT_TRUE(predictions.next());
  });
  EXPECT_TRUE(errors.empty()) << errors.begin()->second.what();
}

TEST(TreesCalls, TrainOfTheChiefAloneEndsWithinItsBoundAndIsNamed) {
  const TempDirectory folder;
  const LocalCluster cluster(2);
  const BoostedTreesClassifierOptions options{.n_trees = 1, .feature_names = {"id"}};
  run_ranks(
      2,
      [&](int rank) {
        RunConfig config = testing::quiet_config(folder / "t", distribute::multi_worker_mirrored(),
                                                 cluster.environment(rank));
        BoostedTreesClassifier(options, config).train(some_batches);
        if (rank != 0) return;
        config.join_timeout = Seconds(1);
        BoostedTreesClassifier trees(options, config);
        EXPECT_GT(trees.evaluate(some_batches).at("loss"), 0);
        const Error error = error_of([&] { trees.train(some_batches, {.max_steps = 100}); });
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
        EXPECT_THAT(error.message(), HasSubstr("waited 1 s in BoostedTrees::train()"));
      },
      kAtOnce);
}

}  // namespace
}  // namespace muster::inline v0_1
