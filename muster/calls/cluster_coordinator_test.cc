// Invariants of calls that a chief schedules; each task is a thread with its own TF_CONFIG.
#include "muster/calls/cluster_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/calls/internal/test_coordinators.h"
#include "muster/files/testing/memory_store.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dense.h"
#include "muster/layers/initializers.h"
#include "muster/layers/sequential.h"
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

struct Tasks {
  int workers = 1;
  int servers = 1;
  CoordinatorOptions options = {};
  ParameterServerOptions strategy = {};
};

// Runs `chief` as the chief of such a cluster.
void run_cluster(const Tasks& tasks,
                 const std::function<void(ClusterCoordinator&, Program&)>& chief,
                 const std::function<void(Program&)>& change = {}) {
  const LocalCluster cluster(1 + tasks.workers, /*chief=*/true, tasks.servers);
  muster::testing::run_ranks(1 + tasks.workers + tasks.servers, [&](int task) {
    CoordinatorOptions options = tasks.options;
    options.environment = task <= tasks.workers
                              ? cluster.environment(task)
                              : cluster.server_environment(task - tasks.workers - 1);
    options.cancelled = [] { return false; };
    Program program;
    if (change) change(program);
    ClusterCoordinator coordinator(parameter_server(tasks.strategy), options);
    program.define(coordinator);
    if (coordinator.serve()) return;
    EXPECT_EQ(task, 0);
    chief(coordinator, program);
  });
}

// One worker makes the calls in their order: that is this process alone.
TEST(ClusterCoordinator, OneWorkerComputesWhatThisProcessComputesAlone) {
  std::vector<double> alone, served;
  Tensor kernel;
  run_alone({.seed = 4}, [&](ClusterCoordinator& coordinator, const Program& program) {
    alone = train_steps(coordinator, program, 12);
    EXPECT_EQ(coordinator.step(), 12);
    kernel = coordinator.variable("dense/kernel");
  });
  run_cluster({.servers = 2, .options = {.seed = 4}},
              [&](ClusterCoordinator& coordinator, const Program& program) {
                served = train_steps(coordinator, program, 12);
                EXPECT_EQ(coordinator.step(), 12);
                EXPECT_TRUE(coordinator.variable("dense/kernel").equal(kernel));
                EXPECT_THAT(error_of([&] { coordinator.variable("dense/karnel"); }).hint(),
                            HasSubstr("'dense/kernel'"));
              });
  EXPECT_EQ(served, alone);
  EXPECT_LT(served.back(), served.front());
}

TEST(ClusterCoordinator, WorkersMakeAsManyStepsAsWereScheduled) {
  run_cluster({.workers = 3, .servers = 2},
              [](ClusterCoordinator& coordinator, const Program& program) {
                EXPECT_EQ(coordinator.num_workers(), 3);
                EXPECT_TRUE(coordinator.done());
                const auto losses = train_steps(coordinator, program, 60);
                EXPECT_TRUE(coordinator.done());
                EXPECT_EQ(coordinator.step(), 60);
                EXPECT_LT(losses.back(), 0.5 * losses.front());
              });
}

TEST(ClusterCoordinator, AFunctionThatDoesNotTrainSeesTheWeightsAsTheyAre) {
  run_cluster({.workers = 2}, [](ClusterCoordinator& coordinator, const Program& program) {
    const auto evaluate = [&] {
      return coordinator.fetch(coordinator.schedule(program.evaluate)).at(0).item<double>();
    };
    const double before = evaluate();
    train_steps(coordinator, program, 60);
    for (int i = 0; i < 4; ++i) EXPECT_LT(evaluate(), 0.5 * before);
    EXPECT_EQ(coordinator.step(), 60);
  });
}

TEST(ClusterCoordinator, ArgumentsAndResultsOfAllFormsTravel) {
  run_cluster({}, [](ClusterCoordinator& coordinator, const Program& program) {
    const std::vector<Tensor> sent = {torch::arange(6).view({2, 3}).t(), torch::tensor(true),
                                      torch::empty({0, 4}), torch::full({3}, 0.5, at::kDouble)};
    const auto received = coordinator.fetch(coordinator.schedule(program.echo, sent));
    ASSERT_EQ(received.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_TRUE(received[i].equal(sent[i])) << i;
      EXPECT_EQ(received[i].scalar_type(), sent[i].scalar_type());
    }
    EXPECT_TRUE(coordinator.fetch(coordinator.schedule(program.echo)).empty());
  });
}

TEST(ClusterCoordinator, ASlowProgramWaitsWhereTheQueueIsFull) {
  run_cluster({.workers = 2, .options = {.queue_capacity = 3}},
              [](ClusterCoordinator& coordinator, const Program& program) {
                for (int i = 0; i < 40; ++i) coordinator.schedule(program.echo);
                coordinator.join();
                EXPECT_TRUE(coordinator.done());
              });
}

// --- errors of functions ---

void expect_one_error(ClusterCoordinator& coordinator, const Program& program) {
  const auto fails = coordinator.schedule(program.echo, {torch::tensor(-1)});
  EXPECT_THAT(message_of([&] { coordinator.fetch(fails); }),
              ::testing::AllOf(HasSubstr("it is negative"), HasSubstr("after step 0")));
  EXPECT_THAT(message_of([&] { coordinator.join(); }), HasSubstr("it is negative"));
  // The error was reported, and the program continues.
  coordinator.join();
  EXPECT_EQ(train_steps(coordinator, program, 3).size(), 3U);
  // The next call of schedule() reports it as well.
  const auto again = coordinator.schedule(program.echo, {torch::tensor(-1)});
  EXPECT_THAT(message_of([&] { coordinator.fetch(again); }), HasSubstr("it is negative"));
  EXPECT_THAT(message_of([&] { coordinator.schedule(program.echo); }), HasSubstr("it is negative"));
  EXPECT_EQ(coordinator.fetch(coordinator.schedule(program.echo, {torch::tensor(5)}))
                .at(0)
                .item<int64_t>(),
            5);
}

TEST(ClusterCoordinator, AnErrorIsReportedOnceHere) { run_alone({}, expect_one_error); }
TEST(ClusterCoordinator, AnErrorIsReportedOnceByAWorker) {
  run_cluster({.workers = 2}, expect_one_error);
}

TEST(ClusterCoordinator, CallsScheduledAfterAFailureAreCancelled) {
  run_cluster({}, [](ClusterCoordinator& coordinator, const Program& program) {
    std::vector<RemoteValue> values;
    // The worker needs longer for one call than this thread to schedule them all, except on a very
    // busy machine: then schedule() reports the failure.
    std::string told;
    for (int i = 0; i < 200 && told.empty(); ++i) {
      try {
        values.push_back(coordinator.schedule(program.echo, {torch::tensor(i == 2 ? -1 : 1)}));
      } catch (const Error& error) {
        told = error.message();
      }
    }
    if (told.empty()) told = message_of([&] { coordinator.join(); });
    EXPECT_THAT(told, HasSubstr("it is negative"));
    coordinator.join();
    EXPECT_EQ(coordinator.fetch(values.at(1)).size(), 1U);
    EXPECT_EQ(error_of([&] { coordinator.fetch(values.at(2)); }).kind(),
              ErrorKind::kInvalidArgument);
    for (size_t i = 3; i < values.size(); ++i)
      EXPECT_EQ(error_of([&] { coordinator.fetch(values[i]); }).kind(), ErrorKind::kCancelled);
  });
}

TEST(ClusterCoordinator, NumbersThatAreNotFiniteUpdateNothing) {
  run_alone({}, [](ClusterCoordinator& coordinator, Program& program) {
    program.divisor = 0;
    coordinator.schedule(program.train);
    const Error error = error_of([&] { coordinator.join(); });
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_EQ(coordinator.step(), 0);
    program.divisor = 1;
    EXPECT_EQ(train_steps(coordinator, program, 2).size(), 2U);
    EXPECT_EQ(coordinator.step(), 2);
  });
}

TEST(ClusterCoordinator, DataThatIsUsedUpIsAnErrorOfTheCall) {
  const auto body = [](ClusterCoordinator& coordinator, const Program& program) {
    for (int i = 0; i < 5; ++i) coordinator.schedule(program.train);
    coordinator.join();
    coordinator.schedule(program.train);
    EXPECT_THAT(message_of([&] { coordinator.join(); }), HasSubstr("\"training\" is used up"));
  };
  CoordinatorOptions options{.cancelled = [] { return false; }, .environment = Environment()};
  Program program;
  program.repeat = 1;
  ClusterCoordinator coordinator(parameter_server(), options);
  program.define(coordinator);
  ASSERT_FALSE(coordinator.serve());
  body(coordinator, program);
}

// --- state that is on no server ---

// With one worker it is this process alone, moving averages included; they are in the checkpoint.
TEST(ClusterCoordinator, MovingAveragesAreThoseOfTheWorkers) {
  TempDirectory directory;
  const auto normalized = [](Program& program) {
    program.model = Sequential({BatchNormalization({.momentum = 0.9}), Dense(1)});
  };
  struct Seen {
    std::vector<double> losses;
    double evaluated = 0;
    Tensor mean;
  };
  const auto body = [](Seen& seen) {
    return [&seen](ClusterCoordinator& coordinator, const Program& program) {
      seen.losses = train_steps(coordinator, program, 12);
      seen.evaluated =
          coordinator.fetch(coordinator.schedule(program.evaluate)).at(0).item<double>();
      seen.mean = coordinator.variable("batch_normalization/moving_mean");
    };
  };
  Seen alone, served;
  const CoordinatorOptions options{.seed = 4, .model_dir = directory / "model"};
  run_alone({.seed = 4}, body(alone), normalized);
  run_cluster(
      {.servers = 2, .options = options},
      [&](ClusterCoordinator& coordinator, const Program& program) {
        body(served)(coordinator, program);
        coordinator.save();
      },
      normalized);
  EXPECT_EQ(served.losses, alone.losses);
  EXPECT_EQ(served.evaluated, alone.evaluated);
  EXPECT_TRUE(served.mean.equal(alone.mean));
  EXPECT_GT(alone.mean.abs().sum().item<double>(), 0);
  // A run that continues has them.
  run_cluster(
      {.workers = 2, .options = options},
      [&](ClusterCoordinator& coordinator, const Program&) {
        EXPECT_TRUE(coordinator.variable("batch_normalization/moving_mean").equal(alone.mean));
      },
      normalized);
}

// --- data ---

TEST(ClusterCoordinator, EachWorkerMakesADataSetOfItsOwn) {
  const LocalCluster cluster(3, /*chief=*/true, /*servers=*/1);
  std::mutex mutex;
  std::set<std::pair<int64_t, int64_t>> made;
  muster::testing::run_ranks(4, [&](int task) {
    CoordinatorOptions options{.cancelled = [] { return false; }};
    options.environment = task < 3 ? cluster.environment(task) : cluster.server_environment(0);
    ClusterCoordinator coordinator(parameter_server(), options);
    const auto data =
        coordinator.create_per_worker_dataset("mine", [&](const InputContext& context) {
          if (task != 0) {
            const std::lock_guard lock(mutex);
            made.emplace(context.input_pipeline_id, context.num_input_pipelines);
          }
          return points(8)
              .shard(context.num_input_pipelines, context.input_pipeline_id)
              .repeat()
              .batch(4);
        });
    const Layer model = Dense(1);
    const auto sgd = optim::sgd({.learning_rate = 0.01});
    const auto train = coordinator.define(
        "train",
        [&](const RemoteCall& call) -> std::vector<Tensor> {
          const Tensor& x = call.batch().features;
          sgd.minimize(losses::mean_squared_error(call.batch().labels, model(x)));
          // So that the other worker makes calls as well.
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return {x.clone()};
        },
        {.training = true, .data = data});
    if (coordinator.serve()) return;
    std::set<double> seen;
    for (int round = 0; round < 200 && seen.size() < 8; ++round) {
      const auto value = coordinator.schedule(train);
      (void)coordinator.schedule(train);
      const Tensor x = coordinator.fetch(value).at(0);
      for (int64_t row = 0; row < x.size(0); ++row) seen.insert(x[row][0].item<double>());
      coordinator.join();
    }
    // All rows, each on the worker to whose part it belongs.
    EXPECT_EQ(seen.size(), 8U);
  });
  EXPECT_THAT(made,
              ElementsAre(std::pair<int64_t, int64_t>(0, 2), std::pair<int64_t, int64_t>(1, 2)));
}

// --- checkpoints ---

TEST(ClusterCoordinator, ContinuesFromItsCheckpointAlsoWithoutServers) {
  TempDirectory directory;
  const CoordinatorOptions options{.seed = 4, .model_dir = directory / "model"};
  double after = 0;
  run_cluster({.workers = 2, .servers = 2, .options = options}, [&](ClusterCoordinator& coordinator,
                                                                    const Program& program) {
    train_steps(coordinator, program, 10);
    after = coordinator.fetch(coordinator.schedule(program.evaluate)).at(0).item<double>();
    EXPECT_THAT(coordinator.save(), HasSubstr("model.ckpt-10"));
  });
  run_cluster({.servers = 1, .options = options},
              [&](ClusterCoordinator& coordinator, const Program& program) {
                EXPECT_EQ(coordinator.step(), 10);
                train_steps(coordinator, program, 5);
                coordinator.save();
              });
  run_alone(options, [](ClusterCoordinator& coordinator, const Program&) {
    EXPECT_EQ(coordinator.step(), 15);
  });
}

TEST(ClusterCoordinator, ASaveThatMayFailIsTriedAgain) {
  MemoryStore& store = memory_store();
  store.clear();
  const std::string dir = "mem://coordinator/saves";
  const auto saves = [&](ClusterCoordinator& coordinator, const Program& program) {
    EXPECT_THAT(message_of([&] { coordinator.save({.max_failed_saves = -1}); }),
                HasSubstr("CoordinatorSaveOptions.max_failed_saves is -1"));
    const auto step_and_save = [&] {
      train_steps(coordinator, program, 1);
      return coordinator.save({.max_failed_saves = 1});
    };
    EXPECT_EQ(step_and_save(), dir + "/model.ckpt-1");
    store.set_plan({.fail_from = 0, .only = [](const std::string& path) {
                      return path.ends_with(".safetensors");
                    }});
    EXPECT_EQ(step_and_save(), "");
    store.set_plan({});
    EXPECT_EQ(step_and_save(), dir + "/model.ckpt-3");
  };
  ::testing::internal::CaptureStderr();
  run_cluster({.servers = 2, .options = {.model_dir = dir}}, saves);
  store.clear();
  run_alone({.model_dir = dir}, [&](ClusterCoordinator& coordinator, const Program& program) {
    saves(coordinator, program);
    store.set_plan({.fail_from = 0});
    const auto save = [&] { return coordinator.save({.max_failed_saves = 1}); };
    EXPECT_EQ(save(), "") << "and it is counted anew";
    const Error error = error_of(save);
    EXPECT_THAT(error.message(), HasSubstr("2 saves in a row failed, and no more may"));
    EXPECT_THAT(error.hint(), HasSubstr("CoordinatorSaveOptions.max_failed_saves"));
    store.set_plan({});
  });
  log::flush();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the run goes on, and tries again with the next save (1 of the 1 "));
  store.clear();
}

// --- mistakes ---

std::string refused(const StrategyPtr& strategy, const Environment& environment = Environment()) {
  return message_of([&] { ClusterCoordinator(strategy, {.environment = environment}); });
}

TEST(ClusterCoordinator, RefusesWhatCannotBe) {
  EXPECT_THAT(refused(one_device()), HasSubstr("was given OneDevice"));
  EXPECT_THAT(refused(parameter_server({.max_staleness = 2})), HasSubstr("max_staleness"));
  EXPECT_THAT(refused(parameter_server({.overlap = true})), HasSubstr("overlap"));
  EXPECT_THAT(refused(parameter_server({.replicas_to_aggregate = 2})),
              HasSubstr("replicas_to_aggregate"));
  EXPECT_THAT(refused(parameter_server(), LocalCluster(1, true, 1).environment(0)),
              HasSubstr("lists no workers"));
  EXPECT_THAT(refused(parameter_server(), LocalCluster(2, true).environment(0)),
              HasSubstr("lists no parameter servers"));
}

TEST(ClusterCoordinator, RefusesDefinitionsThatDoNotFit) {
  ClusterCoordinator coordinator(parameter_server(), {.environment = Environment()});
  const RemoteFunction nothing = [](const RemoteCall&) { return std::vector<Tensor>(); };
  const auto f = coordinator.define("f", nothing);
  EXPECT_THAT(message_of([&] { coordinator.define("f", nothing); }), HasSubstr("taken"));
  EXPECT_THAT(error_of([&] { coordinator.schedule(f); }).hint(), HasSubstr("call serve() first"));
  EXPECT_THAT(message_of([&] { coordinator.serve(); }), HasSubstr("no function was defined"));
  coordinator.define("g", nothing, {.training = true});
  EXPECT_THAT(message_of([&] { coordinator.define("h", nothing, {.training = true}); }),
              HasSubstr("\"g\" and \"h\""));
  EXPECT_THAT(message_of([&] { coordinator.serve(); }), HasSubstr("called no"));
  EXPECT_THAT(message_of([&] { coordinator.define("i", nothing); }), HasSubstr("behind serve()"));
}

TEST(ClusterCoordinator, ABatchNeedsADataSetAndMinimizeAFunctionThatTrains) {
  run_alone({}, [](ClusterCoordinator&, const Program&) {});
  ClusterCoordinator coordinator(parameter_server(), {.environment = Environment()});
  const auto sgd = optim::sgd({.learning_rate = 0.01});
  const auto square = [&](const RemoteCall& call) -> std::vector<Tensor> {
    const Tensor& w =
        call.variable({.name = "w", .shape = {2}, .initializer = initializers::ones()});
    sgd.minimize((w * w).sum());
    return {w};
  };
  const auto train = coordinator.define("train", square, {.training = true});
  const auto wrong = coordinator.define("wrong", square);
  const auto reads = coordinator.define("reads", [](const RemoteCall& call) {
    (void)call.batch();
    return std::vector<Tensor>();
  });
  ASSERT_FALSE(coordinator.serve());
  coordinator.schedule(train);
  coordinator.join();
  EXPECT_EQ(coordinator.step(), 1);
  coordinator.schedule(wrong);
  EXPECT_THAT(message_of([&] { coordinator.join(); }), HasSubstr("does not train"));
  coordinator.schedule(reads);
  EXPECT_THAT(message_of([&] { coordinator.join(); }), HasSubstr("without a data set"));
}

TEST(ClusterCoordinator, OtherFunctionsInOneTaskEndAll) {
  const LocalCluster cluster(2, /*chief=*/true, /*servers=*/1);
  std::vector<std::string> messages(3);
  muster::testing::run_ranks(3, [&](int task) {
    CoordinatorOptions options{.cancelled = [] { return false; }};
    options.environment = task < 2 ? cluster.environment(task) : cluster.server_environment(0);
    messages[static_cast<size_t>(task)] = message_of([&] {
      Program program;
      ClusterCoordinator coordinator(parameter_server(), options);
      program.define(coordinator);
      if (task == 1)
        coordinator.define("more", [](const RemoteCall&) { return std::vector<Tensor>(); });
      if (coordinator.serve()) return;
      coordinator.schedule(program.echo);
      coordinator.join();
    });
  });
  for (const std::string& message : messages) EXPECT_THAT(message, HasSubstr("'more'"));
}

TEST(ClusterCoordinator, AChiefWithoutWorkersGivesUp) {
  const LocalCluster cluster(2, /*chief=*/true, /*servers=*/1);
  const std::string reason = "no worker is there to make calls";
  std::vector<std::optional<Error>> errors(2);
  // On a busy machine the time may be over before the server has started; then it is given more.
  for (double time = 1; time < 60; time *= 4) {
    muster::testing::run_ranks(2, [&](int task) {
      CoordinatorOptions options{.join_timeout = Seconds(time), .cancelled = [] { return false; }};
      options.environment = task == 0 ? cluster.environment(0) : cluster.server_environment(0);
      // How long the server waits for another chief when the chief has given up.
      const auto strategy = parameter_server({.restart_timeout = Seconds(0.5)});
      errors[static_cast<size_t>(task)] = error_of([&] {
        Program program;
        ClusterCoordinator coordinator(strategy, options);
        program.define(coordinator);
        if (coordinator.serve()) return;
        coordinator.schedule(program.echo);
        coordinator.join();
      });
    });
    if (errors[0]->message().find(reason) != std::string::npos) break;
  }
  EXPECT_THAT(errors[0]->message(), HasSubstr(reason));
  EXPECT_THAT(errors[1]->message(), HasSubstr("chief was lost"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
