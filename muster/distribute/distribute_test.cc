#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/base/free_ports.h"
#include "muster/collectives/thread_communicator.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/internal/test_variables.h"
#include "muster/distribute/reducer.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/distribute/variable_table.h"
#include "muster/tensor/libtorch.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::heap;
using testing::no_loss;
using testing::only;
using testing::run_ranks;
using testing::spec_of;

// --- variables -----------------------------------------------------------------------------------

TEST(VariableTableTest, ValuesDependOnSeedAndNameOnly) {
  VariableTable forward(7), backward(7), other(8);
  for (const char* name : {"a", "b"}) forward.get_or_create(spec_of(name, {4}));
  for (const char* name : {"b", "a"}) backward.get_or_create(spec_of(name, {4}));
  for (const char* name : {"a", "b"}) other.get_or_create(spec_of(name, {4}));
  EXPECT_TRUE(forward.find("a")->value().equal(backward.find("a")->value()));
  EXPECT_FALSE(forward.find("a")->value().equal(forward.find("b")->value()));
  EXPECT_FALSE(forward.find("a")->value().equal(other.find("a")->value()));
  EXPECT_THAT(forward.signature(), ElementsAre("a float32[4]", "b float32[4]"));
  EXPECT_EQ(forward.find("c"), nullptr);
}

TEST(VariableTableTest, TheSecondCallReturnsTheFirstOnesVariable) {
  VariableTable table(0);
  Variable& first = table.get_or_create(spec_of("a", {4}));
  table.seal();
  EXPECT_EQ(&table.get_or_create(spec_of("a", {4})), &first);
  EXPECT_TRUE(first.value().requires_grad());
}

TEST(VariableTableTest, VariablesThatDoNotTrainRequireNoGradient) {
  VariableTable table(0);
  VariableSpec constant = spec_of("constant", {2});
  constant.trainable = false;
  EXPECT_FALSE(table.get_or_create(constant).value().requires_grad());
  EXPECT_FALSE(table.get_or_create(spec_of("count", {}, kInt64)).value().requires_grad());
}

TEST(VariableTableTest, RefusesWhatDoesNotFit) {
  VariableTable table(0);
  table.get_or_create(spec_of("a", {4}));
  const auto message = [&](VariableSpec spec) {
    const Error error = error_of([&] { table.get_or_create(spec); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  EXPECT_THAT(message(spec_of("a", {5})), HasSubstr("a float32[5] already exists as a float32[4]"));
  EXPECT_THAT(message(spec_of("a", {4}, kFloat64)), HasSubstr("float64[4]"));
  EXPECT_THAT(message(spec_of("", {4})), HasSubstr("needs a name"));
  EXPECT_THAT(message({.name = "b", .shape = {1}}), HasSubstr("no initializer"));
  VariableSpec wrong = spec_of("b", {2});
  wrong.initializer = [](const Shape&, DType, RandomKey) { return torch::zeros({3}); };
  EXPECT_THAT(message(wrong), HasSubstr("gave float32[3]"));
  EXPECT_EQ(table.variables().size(), 1u);
  table.seal();
  EXPECT_THAT(message(spec_of("late", {1})), HasSubstr("after the model was built"));
}

// --- one device ----------------------------------------------------------------------------------

struct OneDeviceTest : ::testing::Test {
  std::unique_ptr<Replica> replica = one_device()->start({.seed = 5});

  const Tensor& variable(const std::string& name) {
    return replica->variables().get_or_create(spec_of(name, {3})).value();
  }
  StepResult step(const Tensor& loss, const optim::TrainOp& op, double weight = 1) {
    return replica->train_step({.train_op = &op, .loss = loss, .weight = weight, .rows = 1});
  }
};

TEST_F(OneDeviceTest, LossesOnlyReachTheVariablesOfTheirEntries) {
  variable("a"), variable("b");
  const auto sgd = optim::sgd({.learning_rate = 1});
  replica->finish_build(
      optim::group({sgd.minimize(no_loss(), only("a")), sgd.minimize(no_loss(), only("b")),
                    sgd.minimize(no_loss(), only("none"))}));
  const Tensor a = variable("a").detach().clone(), b = variable("b").detach().clone();
  const Tensor both = (variable("a") * variable("b")).sum();
  const Tensor first = 2 * both, second = 3 * both, third = 100 * both;
  step(first, optim::group({sgd.minimize(first, only("a")), sgd.minimize(second, only("b")),
                            sgd.minimize(third, only("none"))}));
  EXPECT_TRUE(torch::allclose(variable("a").detach(), a - 2 * b));
  EXPECT_TRUE(torch::allclose(variable("b").detach(), b - 3 * a));
}

TEST_F(OneDeviceTest, ATrainOpKeepsItsEntries) {
  variable("a"), variable("b");
  const auto sgd = optim::sgd();
  const auto adam = optim::adam();
  replica->finish_build(
      optim::group({sgd.minimize(no_loss(), only("a")), adam.minimize(no_loss(), only("b"))}));
  const Tensor loss = variable("a").sum();
  const Error error = error_of([&] { step(loss, sgd.minimize(loss, only("a"))); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("now: SGD; when the model was built: SGD, Adam"));
}

TEST_F(OneDeviceTest, AStepWithoutWeightUpdatesNothing) {
  variable("a");
  const auto sgd = optim::sgd();
  replica->finish_build(sgd.minimize(no_loss()));
  const auto before = replica->state().tensors();
  std::map<std::string, Tensor> copies;
  for (const auto& [name, tensor] : before) copies[name] = tensor.clone();
  const Tensor loss = variable("a").sum();
  EXPECT_EQ(step(loss, sgd.minimize(loss), 0).loss, 0);
  for (const auto& [name, tensor] : replica->state().tensors())
    EXPECT_TRUE(tensor.equal(copies.at(name))) << name;
}

TEST_F(OneDeviceTest, ALossThatIsNoNumberOrReachesNothingIsAnError) {
  variable("a");
  const auto sgd = optim::sgd();
  replica->finish_build(sgd.minimize(no_loss()));
  const Tensor a = variable("a").detach().clone();
  const Tensor bad = variable("a").sum() * std::numeric_limits<double>::infinity();
  EXPECT_EQ(error_of([&] { step(bad, sgd.minimize(bad)); }).kind(), ErrorKind::kNonFinite);
  const Tensor detached = variable("a").detach().sum();
  EXPECT_THAT(error_of([&] { step(detached, sgd.minimize(detached)); }).message(),
              HasSubstr("does not depend on any variable"));
  EXPECT_TRUE(variable("a").equal(a));
}

// --- several workers -----------------------------------------------------------------------------

void on_workers(int workers, const std::function<void(Replica&, int rank)>& body,
                const CommunicationOptions& options = {.bytes_per_pack = 64}) {
  nlohmann::json addresses = nlohmann::json::array();
  for (int port : free_ports(workers)) addresses.push_back(fmt::format("127.0.0.1:{}", port));
  const StrategyPtr strategy = multi_worker_mirrored(options);
  run_ranks(workers, [&](int rank) {
    const nlohmann::json config{{"cluster", {{"worker", addresses}}},
                                {"task", {{"type", "worker"}, {"index", rank}}}};
    const auto replica = strategy->start(
        {.cluster = cluster::resolve_cluster(Environment({{"TF_CONFIG", config.dump()}}),
                                             {.worker_zero_may_be_chief = true}),
         .seed = 5,
         .join_timeout = 30});
    try {
      body(*replica, rank);
    } catch (const Error& error) {
      replica->group().fail(error);
      throw;
    }
  });
}

const Tensor& variable(Replica& replica, const VariableSpec& spec) {
  return replica.variables().get_or_create(spec).value();
}

// A two-player game: each loss trains its own side, with an optimizer of its own.
std::map<std::string, Tensor> play(Replica& replica, const Tensor& rows) {
  const auto descent = optim::sgd({.learning_rate = 0.1, .momentum = 0.5});
  const auto adam = optim::adam({.learning_rate = 0.01});
  const auto op = [&](const Tensor& left, const Tensor& right) {
    return optim::group(
        {descent.minimize(left, only("left")), adam.minimize(right, only("right"))});
  };
  const auto left = [&] { return variable(replica, spec_of("left/w", {4})); };
  const auto right = [&] { return variable(replica, spec_of("right/w", {4})); };
  left(), right();
  replica.finish_build(op(no_loss(), no_loss()));
  replica.share_state();
  for (int step = 0; step < 5; ++step) {
    const Tensor game = (rows * left() * right()).sum(-1).mean();
    const Tensor first = game + left().square().sum(), second = -game + right().square().sum();
    const optim::TrainOp both = op(first, second);
    replica.train_step({.train_op = &both,
                        .loss = first,
                        .weight = static_cast<double>(rows.size(0)),
                        .rows = rows.size(0)});
  }
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : replica.state().tensors()) state[name] = tensor.clone();
  replica.finish();
  return state;
}

TEST(MultiWorkerReplicaTest, SeveralLossesAreOneLawToo) {
  const Tensor rows = torch::arange(0, 24, kFloat32).view({6, 4}) / 24;
  const auto alone = play(*one_device()->start({.seed = 5}), rows);
  on_workers(2, [&](Replica& replica, int rank) {
    const auto state = play(replica, rank == 0 ? rows.slice(0, 0, 4) : rows.slice(0, 4, 6));
    ASSERT_EQ(state.size(), alone.size());
    for (const auto& [name, tensor] : state)
      EXPECT_TRUE(torch::allclose(tensor, alone.at(name), 1e-5, 1e-7)) << name;
  });
}

StepResult one_step(Replica& replica, const optim::Optimizer& sgd) {
  const Tensor loss = variable(replica, spec_of("a", {3})).sum();
  const auto op = sgd.minimize(loss);
  return replica.train_step({.train_op = &op, .loss = loss, .weight = 1, .rows = 1});
}

TEST(MultiWorkerReplicaTest, StateThatDoesNotTrainMayNotDriftApartUnnoticed) {
  for (const auto aggregation : {VariableAggregation::kMean, VariableAggregation::kSum,
                                 VariableAggregation::kOnlyFirstReplica}) {
    std::atomic<int> refused{0};
    const auto body = [&](Replica& replica, int rank) {
      const auto sgd = optim::sgd();
      VariableSpec moving = spec_of("moving", {2});
      moving.trainable = false;
      moving.aggregation = aggregation;
      variable(replica, spec_of("a", {3})), variable(replica, moving);
      replica.finish_build(sgd.minimize(no_loss()));
      replica.share_state();
      // Changed after the reduction, by equal values on all replicas: fine.
      const Tensor loss = variable(replica, spec_of("a", {3})).sum();
      auto op = sgd.minimize(loss);
      op.updates.push_back([&] { Tensor(variable(replica, moving)).add_(1); });
      replica.train_step({.train_op = &op, .loss = loss, .weight = 1, .rows = 1});
      one_step(replica, sgd);
      // Changed by the model function: each replica would have another value.
      Tensor(variable(replica, moving)).add_(rank);
      try {
        one_step(replica, sgd);
        replica.finish();
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
        EXPECT_THAT(error.message(), HasSubstr("not supported"));
        EXPECT_THAT(error.message(), HasSubstr("moving"));
        ++refused;
        throw;
      }
    };
    if (aggregation == VariableAggregation::kOnlyFirstReplica) {
      on_workers(2, body);
    } else {
      EXPECT_THROW(on_workers(2, body), Error);
      EXPECT_EQ(refused, 2);
    }
  }
}

// An error that ends one worker is known to the others at once, with its cause, wherever they wait.
TEST(MultiWorkerReplicaTest, AFailureIsToldToThoseWhoWaitInACollective) {
  std::atomic<int> told{0};
  on_workers(3, [&](Replica& replica, int rank) {
    const auto sgd = optim::sgd();
    variable(replica, spec_of("a", {3}));
    replica.finish_build(sgd.minimize(no_loss()));
    replica.share_state();
    one_step(replica, sgd);
    if (rank == 1) {
      replica.group().fail(corrupt("the shard is damaged"));
      return;
    }
    const Error error = error_of([&] {
      if (rank == 0) one_step(replica, sgd);
      if (rank == 2) replica.group().gather_text("note", "here");
    });
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("the shard is damaged"));
    EXPECT_THAT(error.message(), HasSubstr("worker 1"));
    ++told;
  });
  EXPECT_EQ(told, 2);
}

// The error of a collective that is given up names its bucket, the missing worker, and where that
// worker is.
TEST(MultiWorkerReplicaTest, ATimeoutNamesBucketAndCulprit) {
  std::atomic<bool> over{false};
  on_workers(2,
             [&](Replica& replica, int rank) {
               const auto sgd = optim::sgd();
               const auto left = [&] { return variable(replica, spec_of("left/w", {300})); };
               const auto right = [&] { return variable(replica, spec_of("right/w", {300})); };
               left(), right();
               replica.finish_build(sgd.minimize(no_loss()));
               replica.share_state();
               const auto step = [&] {
                 const Tensor loss = (left() * right()).sum();
                 const auto op = sgd.minimize(loss);
                 replica.train_step({.train_op = &op, .loss = loss, .weight = 1, .rows = 1});
               };
               step();
               replica.group().report(Phase::kTraining, 7);
               if (rank == 1) {
                 // Alive, and away from the collective, until the other has given it up: bounded by
                 // its time-out. The sleep only leaves the core to others.
                 while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
                 return;
               }
               const Error error = error_of(step);
               EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
               EXPECT_THAT(error.message(), HasSubstr("did not take part within 2000 ms"));
               EXPECT_THAT(error.message(),
                           HasSubstr("in the reduction of bucket 2 of 3 (gradient of left/w)"));
               EXPECT_THAT(error.message(), HasSubstr("still missing: worker 1 at 127.0.0.1:"));
               EXPECT_THAT(error.message(), HasSubstr("at step 7 (training)"));
               over = true;
             },
             {.bytes_per_pack = 64,
              .timeout = Seconds(2),  // longer than a busy machine needs for the step before
              .heartbeat_interval = Seconds(0.1),
              .heartbeat_timeout = Seconds(5)});
}

TEST(MultiWorkerReplicaTest, TextsAreGatheredRoundByRound) {
  on_workers(2, [&](Replica& replica, int rank) {
    for (int round = 0; round < 5; ++round) {
      EXPECT_THAT(replica.group().gather_text("t", fmt::format("{}/{}", round, rank)),
                  ElementsAre(fmt::format("{}/0", round), fmt::format("{}/1", round)));
    }
    replica.finish();
  });
}

TEST(MultiWorkerReplicaTest, OptionsAreChecked) {
  EXPECT_THAT(error_of([] { multi_worker_mirrored({.bytes_per_pack = -1}); }).message(),
              HasSubstr("bytes_per_pack is -1"));
  EXPECT_THAT(error_of([] { multi_worker_mirrored({.timeout = Seconds(0)}); }).message(),
              HasSubstr("timeout is 0 s"));
  EXPECT_THAT(error_of([] { multi_worker_mirrored({.save_timeout = Seconds(0)}); }).message(),
              HasSubstr("save_timeout is 0 s"));
  EXPECT_THAT(
      error_of([] {
        multi_worker_mirrored({.heartbeat_interval = Seconds(4), .heartbeat_timeout = Seconds(6)});
      }).message(),
      HasSubstr("heartbeat_timeout is 6 s"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
