// Wrong loops written by hand: their errors, and that these come at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "muster/base/error_of.h"
#include "muster/data/element_queue.h"
#include "muster/distribute/strategy.h"
#include "muster/layers/dense.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using testing::HasSubstr;

Dataset ones(int64_t rows) {
  return Dataset::from_tensor_slices(
      Element::tuple({torch::ones({rows, 2}), torch::ones({rows, 1})}));
}

TEST(LoopInputTest, ReplicasThatDifferAreToldSo) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto wrong = [&](const std::function<void(int)>& fn) {
    const auto scope = strategy->scope(alone());
    return error_of([&] { strategy->run([&] { fn(ReplicaContext::current().replica_id()); }); });
  };
  const Layer model = Dense(1);
  EXPECT_THAT(wrong([&](int r) {
                const Tensor out = model(torch::ones({1, 1})).sum();
                if (r == 0) optim::sgd().minimize(out);
              }).message(),
              HasSubstr("minimize() was called on some replicas only"));
  EXPECT_THAT(wrong([&](int r) {
                optim::sgd().minimize(Dense(1)(torch::ones({1, r + 1})).sum());
              }).message(),
              HasSubstr("replica 1 built another model than replica 0"));
  EXPECT_THAT(wrong([&](int r) {
                (void)ReplicaContext::current().all_gather(torch::ones({2, r + 1}), 0);
              }).message(),
              HasSubstr("gather along axis 0: replica"));
  EXPECT_THAT(wrong([&](int) {
                optim::sgd().minimize(Dense(1)(torch::ones({1, 1})).sum());
              }).message(),
              HasSubstr("after the model was built"))
      << "a new layer at every call";
}

// The queue stays open: without the request the loop would wait for ever.
TEST(LoopInputTest, ARequestEndsAWaitForData) {
  const auto queue = std::make_shared<data::ElementQueue>();
  for (const auto rows = ones(8).iterator(); auto row = rows->next();) queue->push(*std::move(row));
  std::atomic<bool> asked = false;
  const StrategyPtr strategy = one_device();
  ScopeOptions options = alone();
  options.cancelled = [&] { return asked.load(); };
  const auto scope = strategy->scope(options);
  const Layer model = Dense(1);
  int64_t steps = 0;
  for (const auto& batch : strategy->distribute(data::from_queue(queue).batch(4).prefetch(1))) {
    strategy->run(
        [&](const Features& x, const Labels& y) {
          optim::sgd().minimize(losses::mean_squared_error(y.tensor(), model(x.tensor())));
        },
        batch);
    if (++steps == 2) asked = true;
  }
  EXPECT_EQ(steps, 2);
  EXPECT_TRUE(scope.should_stop());
}

// The first call makes the variables, and must not change the second one's input: values, and
// shapes.
TEST(LoopInputTest, ABatchThatIsChangedInPlaceIsChangedOnce) {
  for (const int replicas : {1, 2}) {
    const StrategyPtr strategy = mirrored({.replicas = replicas});
    const auto scope = strategy->scope(alone());
    const Layer model = Dense(1);
    std::mutex mutex;
    std::vector<double> sums;
    const auto step = [&](const Features& x, const Labels& y) {
      Tensor inputs = x.tensor();
      inputs.mul_(2);
      {
        const std::lock_guard lock(mutex);
        sums.push_back(inputs.sum().item<double>() + 100.0 * static_cast<double>(inputs.dim()));
      }
      Tensor wanted = y.tensor();
      wanted.squeeze_(1);
      optim::sgd().minimize(losses::mean_squared_error(wanted.unsqueeze(1), model(inputs)));
    };
    for (const auto& batch : strategy->distribute(ones(8).batch(4 * replicas)))
      strategy->run(step, batch);
    // Two batches of four rows of two ones, and the call that made the variables.
    EXPECT_THAT(sums,
                testing::SizeIs(static_cast<size_t>(8 / (4 * replicas) * replicas + replicas)));
    EXPECT_THAT(sums, testing::Each(216.0));
  }
}

TEST(LoopInputTest, ANameThatIsNearlyRightIsNamed) {
  const StrategyPtr strategy = one_device();
  const auto scope = strategy->scope(alone());
  const Layer model = Dense(1);
  strategy->run([&] { optim::sgd().minimize(model(torch::ones({1, 1})).sum()); });
  const std::string name = scope.variable_names().front();
  EXPECT_EQ(error_of([&] { (void)scope.variable(name + "s"); }).hint(),
            "did you mean '" + name + "'?");
  EXPECT_THAT(error_of([&] { (void)scope.variable("other"); }).hint(), HasSubstr(name));
}

// Found at once: the wait of a collective is half an hour.
TEST(LoopInputTest, AReplicaThatLeavesOutACollectiveIsToldSo) {
  const Layer model = Dense(1);
  const Tensor x = torch::ones({1, 1});
  const auto all_reduce = [](const Tensor& value) {
    return ReplicaContext::current().all_reduce(ReduceOp::kSum, value);
  };
  const std::pair<const char*, std::function<void(bool)>> cases[] = {
      {"it returns",
       [&](bool here) {
         if (here) (void)all_reduce(torch::ones({3}));
       }},
      {"it makes one less",
       [&](bool here) {
         (void)all_reduce(torch::ones({3}));
         if (here) (void)ReplicaContext::current().all_gather(torch::ones({3}));
       }},
      {"it trains", [&](bool here) {
         const Tensor loss = model(x).sum();
         if (here) (void)all_reduce(torch::ones({3}));
         optim::sgd().minimize(loss);
       }}};
  for (const auto& [name, fn] : cases) {
    for (int leaves_out : {0, 1, 2}) {
      for (bool training : {true, false}) {
        if (!training && std::string(name) == "it trains") continue;
        SCOPED_TRACE(fmt::format("{}: replica {}", name, leaves_out));
        const StrategyPtr strategy = mirrored({.replicas = 3});
        const auto scope = strategy->scope(alone());
        // The first call trains, so that the model is built before.
        strategy->run([&] { optim::sgd().minimize(model(x).sum()); });
        const Error error = error_of([&] {
          strategy->run(RunOptions{.training = training},
                        [&] { fn(ReplicaContext::current().replica_id() != leaves_out); });
        });
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
        EXPECT_THAT(error.message(), HasSubstr("and another replica is elsewhere"));
        EXPECT_THAT(error.hint(), HasSubstr("the same collectives in the same order"));
      }
    }
  }
  // The same in the call that builds the model.
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  EXPECT_THAT(error_of([&] {
                strategy->run([&] {
                  const Tensor loss = model(x).sum();
                  if (ReplicaContext::current().replica_id() == 0) (void)all_reduce(x);
                  optim::sgd().minimize(loss);
                });
              }).message(),
              HasSubstr("and another replica is elsewhere"));
}

TEST(LoopInputTest, ValuesOfDifferentFormsAreNotReduced) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto refused = [&](const std::function<Tensor(int)>& value, bool gathers) {
    const auto scope = strategy->scope(alone());
    const auto values =
        strategy->run([&] { return value(ReplicaContext::current().replica_id()); });
    return error_of(
        [&] { gathers ? strategy->gather(values) : strategy->reduce(ReduceOp::kSum, values); });
  };
  const auto sizes = [](int r) { return torch::ones(r == 0 ? Shape{2, 3} : Shape{3, 2}); };
  const auto axes = [](int r) { return torch::ones(r == 0 ? Shape{2, 3} : Shape{6}); };
  const auto dtypes = [](int r) { return torch::ones({2}, r == 0 ? kFloat32 : kFloat64); };
  const std::tuple<std::function<Tensor(int)>, const char*, const char*> cases[] = {
      {sizes, "float32[2, 3]", "float32[3, 2]"},
      {axes, "float32[2, 3]", "float32[6]"},
      {dtypes, "float32[2]", "float64[2]"},
      {[](int r) { return torch::ones({r + 1}); }, "float32[1]", "float32[2]"}};
  for (const auto& [value, first, second] : cases) {
    for (bool gathers : {false, true}) {
      if (gathers && std::string(first) == "float32[1]") continue;  // the axis that may differ
      const Error error = refused(value, gathers);
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
      EXPECT_THAT(error.message(), testing::AllOf(HasSubstr(gathers ? "gather" : "reduce()"),
                                                  HasSubstr(first), HasSubstr(second)));
      EXPECT_THAT(error.hint(), HasSubstr("the same dtype and sizes"));
    }
  }
  // Inside of a replica function as well.
  const auto scope = strategy->scope(alone());
  EXPECT_THAT(error_of([&] {
                strategy->run([&] {
                  auto& context = ReplicaContext::current();
                  (void)context.all_reduce(ReduceOp::kSum, sizes(context.replica_id()));
                });
              }).message(),
              HasSubstr("reduce(): replica"));
}

TEST(LoopInputTest, TensorsMadeOutsideOfTheScopeDoNotTrain) {
  const Tensor outside = torch::ones({2, 1}, torch::requires_grad());
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    for (bool with_layer : {false, true}) {
      const auto scope = strategy->scope(alone());
      const Layer model = Dense(1);
      const Error error = error_of([&] {
        strategy->run([&] {
          if (with_layer) (void)model(torch::ones({1, 2}));
          optim::sgd().minimize(torch::ones({1, 2}).mm(outside).sum());
        });
      });
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(
          error.message(),
          HasSubstr(with_layer ? "but on float32[2, 1]"
                               : "no variable to train; its loss depends on float32[2, 1]"));
      EXPECT_THAT(error.hint(), HasSubstr("torch_module()"));
    }
    // Tensors that the function makes for itself may require gradients, too.
    const auto scope = strategy->scope(alone());
    const Layer model = Dense(1);
    strategy->run([&] {
      const Tensor x = torch::ones({1, 2}, torch::requires_grad());
      optim::sgd().minimize(model(x).sum());
    });
  }
}

// 10 rows over 3 replicas: shares that are given by number must be whole, those dealt need not.
TEST(LoopInputTest, AGlobalBatchThatDoesNotDivideIsNamedWhereItMust) {
  const StrategyPtr strategy = mirrored({.replicas = 3});
  const auto scope = strategy->scope(alone());
  const Error error = error_of([&] {
    for (const auto& batch : strategy->distribute_from_function([](const InputContext& context) {
           return ones(10).batch(context.per_replica_batch_size(10));
         })) {
      (void)batch;
    }
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("10 is not divisible by the 3 replicas in sync"));
  EXPECT_THAT(error.hint(), HasSubstr("a multiple of the number of replicas"));
}

TEST(LoopInputTest, MistakesAreRefused) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto refused = [&](const std::function<void()>& fn) {
    const auto scope = strategy->scope(alone());
    return error_of(fn);
  };
  EXPECT_THAT(refused([&] { strategy->run([](const Batch&) {}, PerReplica<Batch>()); }).message(),
              HasSubstr("run() was given values of 0 replicas; this process has 2"));
  EXPECT_THAT(refused([&] {
                auto data = strategy->distribute(ones(8).batch(4));
                strategy->run([&] {
                  for (const auto& batch : data) (void)batch;
                });
              }).message(),
              HasSubstr("read inside of a replica function"));
  const Layer first = Dense(1, {.name = "first"}), second = Dense(1, {.name = "second"});
  EXPECT_THAT(refused([&] {
                for (const char* turn : {"first", "second"}) {
                  strategy->run([&] {
                    const Tensor x = torch::ones({2, 1});
                    const auto mine = [&](const VariableSpec& spec) {
                      return spec.name.starts_with(turn);
                    };
                    optim::sgd().minimize((first(x) + second(x)).sum(), mine);
                  });
                }
              }).message(),
              HasSubstr("leaves out the variable first/"));
  EXPECT_THAT(refused([&] {
                strategy->run([&] {
                  optim::sgd().minimize(first(torch::full({2, 1}, std::nan(""))).sum());
                });
              }).message(),
              HasSubstr("at step 1"));
}

TEST(LoopInputTest, VerbsBelongIntoTheScope) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const StrategyPtr other = one_device();
  EXPECT_THAT(error_of([&] { strategy->run([] {}); }).message(),
              HasSubstr("run() was called outside of the scope of Mirrored"));
  EXPECT_THAT(error_of([&] {
                Dense(1)(torch::ones({1, 1}));
              }).message(),
              HasSubstr("a layer (dense) was called outside of a replica function"));
  EXPECT_THAT(error_of([] { ReplicaContext::current(); }).message(),
              HasSubstr("there is no replica here"));
  const auto scope = strategy->scope(alone());
  {
    const auto nested = strategy->scope(alone());
    EXPECT_EQ(nested.num_replicas_in_sync(), 2);
  }
  strategy->run([] {});  // the outer scope continues
  EXPECT_THAT(error_of([&] { other->scope(alone()); }).message(),
              HasSubstr("the scope of OneDevice was entered inside of that of Mirrored"));
  EXPECT_THAT(error_of([&] { other->run([] {}); }).message(),
              HasSubstr("run() of OneDevice was called in the scope of another strategy"));
  EXPECT_THAT(error_of([&] { (void)scope.variable("dense/kernel"); }).message(),
              HasSubstr("there is no variable \"dense/kernel\""));
  EXPECT_THAT(error_of([&] { strategy->run([&] { strategy->run([] {}); }); }).message(),
              HasSubstr("run() was called inside of a replica function"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
