// Loops written by hand over a strategy.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/strategy.h"
#include "muster/formats/event.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/loop/replica_context.h"
#include "muster/loop/scope.h"
#include "muster/loop/testing/test_loops.h"
#include "muster/losses/losses.h"
#include "muster/metrics/metrics.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// What a run leaves: weights, and the loss of each step.
struct TrainedLine {
  Tensor kernel;
  std::vector<double> losses;
};

TrainedLine train(const StrategyPtr& strategy, const optim::Optimizer& optimizer, int64_t rows,
                  int64_t batch, int epochs = 2) {
  const auto scope = strategy->scope(alone(7));
  const Layer model = Dense(1);
  TrainedLine trained;
  const auto step = [&](const Features& x, const Labels& y) {
    optimizer.minimize(losses::mean_squared_error(y, model(x)));
  };
  const Dataset dataset = points(rows).shuffle(rows).repeat(epochs).batch(batch);
  for (const auto& examples : strategy->distribute(dataset)) {
    strategy->run(step, examples);
    trained.losses.push_back(scope.last_step().loss);
  }
  trained.kernel = scope.variable("dense/kernel");
  return trained;
}

class LoopLawTest : public testing::TestWithParam<int64_t> {};

TEST_P(LoopLawTest, ReplicasComputeWhatOneComputes) {
  for (const optim::Optimizer& optimizer :
       {optim::sgd({.learning_rate = 0.1}), optim::sgd({.learning_rate = 0.05, .momentum = 0.9}),
        optim::adam({.learning_rate = 0.05}),
        optim::clip_by_global_norm(optim::sgd({.learning_rate = 0.3}), 0.5)}) {
    const TrainedLine one = train(one_device(), optimizer, GetParam(), 12);
    for (int replicas : {2, 3, 4}) {
      const TrainedLine many = train(mirrored({.replicas = replicas}), optimizer, GetParam(), 12);
      ASSERT_EQ(one.losses.size(), many.losses.size());
      for (size_t s = 0; s < one.losses.size(); ++s)
        EXPECT_NEAR(one.losses[s], many.losses[s], 1e-5 * std::max(1.0, one.losses[s]));
      EXPECT_TRUE(torch::allclose(one.kernel, many.kernel, 1e-4, 1e-6));
      const TrainedLine again = train(mirrored({.replicas = replicas}), optimizer, GetParam(), 12);
      EXPECT_TRUE(again.kernel.equal(many.kernel));
    }
  }
}

// 48: full batches; 53: a ragged last one; 49: in the last step all replicas but one have no data.
INSTANTIATE_TEST_SUITE_P(Rows, LoopLawTest, testing::Values(48, 53, 49));

TEST(LoopTest, ABatchGoesToAFunctionOfFeaturesAlone) {
  const auto total = [](const Features& x) {
    const Tensor& values = x;
    return values.sum();
  };
  const Dataset unlabelled = Dataset::from_tensor_slices(torch::ones({7, 2})).batch(4);
  const Dataset labelled =
      Dataset::from_tensor_slices(Element::tuple({torch::ones({7, 2}), torch::zeros({7, 1})}))
          .batch(4);
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    for (const Dataset& dataset : {unlabelled, labelled}) {
      const auto scope = strategy->scope(alone());
      double sum = 0;
      for (const auto& batch : strategy->distribute(dataset))
        sum += strategy->reduce(ReduceOp::kSum, strategy->run(total, batch)).item<double>();
      EXPECT_EQ(sum, 14) << strategy->name();
    }
  }
}

TEST(LoopTest, GlobalBatchesAreSharedOut) {
  const StrategyPtr strategy = mirrored({.replicas = 3});
  const auto scope = strategy->scope(alone());
  EXPECT_EQ(strategy->num_replicas_in_sync(), 3);
  std::vector<std::vector<int64_t>> rows;
  for (const auto& batch : strategy->distribute(points(17).batch(8))) {
    rows.emplace_back();
    for (const Batch& part : batch) rows.back().push_back(part.rows());
  }
  EXPECT_THAT(rows, ElementsAre(ElementsAre(3, 3, 2), ElementsAre(3, 3, 2), ElementsAre(1, 0, 0)));
}

TEST(LoopTest, EveryPassHasAllExamplesInAnotherOrder) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  auto distributed = strategy->distribute(Dataset::range(10).shuffle(10).batch(4));
  std::vector<std::vector<int64_t>> passes;
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<int64_t> seen;
    for (const auto& batch : distributed) {
      for (const Batch& part : batch) {
        const Tensor& values = part.features.tensor();
        for (int64_t i = 0; i < values.size(0); ++i) seen.push_back(values[i].item<int64_t>());
      }
    }
    passes.push_back(seen);
    EXPECT_THAT(seen, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  }
  EXPECT_NE(passes[0], passes[1]);
}

TEST(LoopTest, AFunctionDescribesTheDataOfItsProcess) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  const auto distributed = strategy->distribute_from_function([](const InputContext& context) {
    EXPECT_EQ(context.num_replicas_in_sync, 2);
    EXPECT_EQ(context.num_input_pipelines, 1);
    return points(10).batch(context.per_replica_batch_size(8));
  });
  std::vector<int64_t> rows;
  for (const auto& batch : DistributedDataset(distributed)) {
    for (const Batch& part : batch) rows.push_back(part.rows());
  }
  EXPECT_THAT(rows, ElementsAre(4, 4, 2, 0));
}

TEST(LoopTest, ValuesAreReducedAndGathered) {
  const StrategyPtr strategy = mirrored({.replicas = 3});
  const auto scope = strategy->scope(alone());
  // Replica r has r + 1 rows of the number r.
  const auto values = strategy->run([] {
    const int64_t r = ReplicaContext::current().replica_id();
    return torch::full({r + 1, 2}, static_cast<double>(r));
  });
  const auto one = strategy->run(
      [] { return torch::full({}, static_cast<double>(ReplicaContext::current().replica_id())); });
  EXPECT_EQ(strategy->reduce(ReduceOp::kSum, one).item<double>(), 3);
  EXPECT_EQ(strategy->reduce(ReduceOp::kMean, one).item<double>(), 1);
  const Tensor sums = torch::full({2}, 8.0);  // 0 + 2 * 1 + 3 * 2
  EXPECT_TRUE(strategy->reduce(ReduceOp::kSum, values, 0).equal(sums));
  EXPECT_TRUE(torch::allclose(strategy->reduce(ReduceOp::kMean, values, 0), sums / 6));
  const Tensor gathered = strategy->gather(values, 0);
  EXPECT_EQ(gathered.sizes(), at::IntArrayRef({6, 2}));
  EXPECT_TRUE(gathered.select(1, 0).equal(torch::tensor({0., 1., 1., 2., 2., 2.})));
  const auto accuracy = strategy->run([] {
    const int64_t r = ReplicaContext::current().replica_id();
    return metrics::accuracy(torch::ones({r + 1}, kInt64), torch::full({r + 1}, r, kInt64));
  });
  EXPECT_DOUBLE_EQ(strategy->reduce(accuracy).result(), 2.0 / 6);
}

TEST(LoopTest, GradientsFlowThroughCollectives) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  const auto gradients = strategy->run([] {
    auto& context = ReplicaContext::current();
    const double r = context.replica_id() + 1;
    const Tensor x = torch::full({2}, r, torch::requires_grad());
    const Tensor total = context.all_reduce(ReduceOp::kSum, x);  // 3
    const Tensor mean = context.all_reduce(ReduceOp::kMean, x);  // 1.5
    const Tensor all = context.all_gather(x);                    // 1 1 2 2
    EXPECT_TRUE(total.eq(3).all().item<bool>());
    EXPECT_TRUE(mean.eq(1.5).all().item<bool>());
    EXPECT_TRUE(all.detach().equal(torch::tensor({1.f, 1.f, 2.f, 2.f})));
    // Losses of the replicas: r * (sum of total) + sum of mean + r * (sum of all).
    (r * total.sum() + mean.sum() + r * all.sum()).backward();
    return x.grad();
  });
  // d/dx: 1 + 2 of the totals, 2 * 1/2 of the means, 1 + 2 of what was gathered.
  for (const Tensor& gradient : gradients) EXPECT_TRUE(gradient.eq(7).all().item<bool>());
}

TEST(LoopTest, EvaluatingTrainsNothingAndDropsNothing) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  const Layer dropout = Dropout(0.5);
  const auto dropped = [&](bool training) {
    const auto kept = strategy->run(RunOptions{.training = training}, [&] {
      const Tensor out = dropout(torch::ones({1000}));
      EXPECT_EQ(torch::GradMode::is_enabled(), training);
      return out.eq(1).all();
    });
    return !kept[0].item<bool>();
  };
  EXPECT_FALSE(dropped(false));
  EXPECT_TRUE(dropped(true));
  EXPECT_EQ(scope.step(), 0);
  const auto minimize = [&] { optim::sgd().minimize(Dense(1)(torch::ones({1, 1})).sum()); };
  EXPECT_THAT(error_of([&] { strategy->run(RunOptions{.training = false}, minimize); }).message(),
              HasSubstr("without training"));
}

TEST(LoopTest, WhatOneReplicaThrowsIsThrownAndEndsTheScope) {
  const StrategyPtr strategy = mirrored({.replicas = 3});
  struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  for (int broken : {0, 2}) {
    const auto scope = strategy->scope(alone());
    const Layer model = Dense(1);
    const auto step = [&](const Features& x, const Labels& y) {
      const auto& context = ReplicaContext::current();
      if (context.replica_id() == broken && context.step() == 1) throw Mine("mine");
      optim::sgd().minimize(losses::mean_squared_error(y, model(x)));
    };
    int made = 0;
    EXPECT_THROW(
        {
          for (const auto& batch : strategy->distribute(points(60).batch(6))) {
            strategy->run(step, batch);
            ++made;
          }
        },
        Mine);
    EXPECT_EQ(made, 1);
    EXPECT_THAT(error_of([&] { strategy->run([] {}); }).message(),
                HasSubstr("the scope is over: "));
  }
}

TEST(LoopTest, AskedToStopItEndsBehindAStep) {
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})}) {
    std::atomic<bool> asked = false;
    ScopeOptions options = alone();
    options.cancelled = [&] { return asked.load(); };
    const auto scope = strategy->scope(options);
    const Layer model = Dense(1);
    for (const auto& batch : strategy->distribute(points(60).batch(6))) {
      strategy->run(
          [&](const Features& x, const Labels& y) {
            optim::sgd().minimize(losses::mean_squared_error(y, model(x)));
          },
          batch);
      if (scope.step() == 2) asked = true;
      if (scope.should_stop()) break;
    }
    // Several replicas learn of it in the next step, so that all learn of it in the same one.
    const int64_t last = strategy->name() == "OneDevice" ? 2 : 3;
    EXPECT_EQ(scope.step(), last);
    const Error error = error_of([&] { scope.stop(); });
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_EQ(error.message(),
              fmt::format("stopped by its program at step {}, which was not saved", last));
    EXPECT_THAT(error_of([&] { strategy->run([] {}); }).message(), HasSubstr("the scope is over"));
  }
}

TEST(LoopTest, AReplicaWithoutExamplesLeavesStatisticsAlone) {
  const StrategyPtr strategy = mirrored({.replicas = 2});
  const auto scope = strategy->scope(alone());
  const Layer model = Dense(1);
  for (const auto& batch : strategy->distribute(points(5).batch(4))) {
    strategy->run(
        [&](const Features& x, const Labels& y) {
          const Tensor seen = ReplicaContext::current().variable(
              {.name = "mean",
               .shape = {},
               .initializer = initializers::zeros(),
               .trainable = false,
               .synchronization = VariableSynchronization::kOnRead});
          {
            const torch::NoGradGuard no_grad;
            seen.copy_(x.tensor().mean());  // not a number for zero rows
          }
          optim::sgd().minimize(losses::mean_squared_error(y, model(x)));
        },
        batch);
  }
  const auto means = strategy->run(RunOptions{.training = false}, [&] {
    return ReplicaContext::current().variable({.name = "mean", .shape = {}}).clone();
  });
  for (const Tensor& mean : means) EXPECT_TRUE(mean.isfinite().item<bool>());
}

TEST(LoopTest, ABackwardOfTheFunctionsOwnChangesNothing) {
  const auto trained = [](const StrategyPtr& strategy, bool looks) {
    const auto scope = strategy->scope(alone());
    const Layer model = Dense(1);
    for (const auto& batch : strategy->distribute(points(24).batch(6))) {
      const auto flags = strategy->run(
          [&](const Features& x, const Labels& y) {
            const Tensor loss = losses::mean_squared_error(y, model(x));
            if (looks) (2 * loss).backward({}, /*retain_graph=*/true);
            optim::sgd({.learning_rate = 0.1}).minimize(loss);
            return true;
          },
          batch);
      EXPECT_TRUE(flags[0]);
    }
    return scope.variable("dense/kernel");
  };
  for (const StrategyPtr& strategy : {one_device(), mirrored({.replicas = 2})})
    EXPECT_TRUE(trained(strategy, true).equal(trained(strategy, false))) << strategy->name();
}

// A program that forgets minimize(), or calls backward() alone, is warned once that nothing is
// trained.
TEST(LoopTest, ARunThatMakesNoStepSaysSo) {
  const auto said = [](const RunOptions& options, bool has_variables) {
    const auto strategy = mirrored({.replicas = 2});
    const auto scope = strategy->scope(alone());
    const Layer model = Dense(1);
    ::testing::internal::CaptureStderr();
    for (int call = 0; call < 2; ++call) {
      strategy->run(options, [&] {
        const Tensor x = torch::ones({4, 2});
        const Tensor loss = (has_variables ? model(x) : x).sum();
        if (has_variables && options.training) loss.backward();
      });
    }
    log::flush();
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string warning = said({}, true);
  const size_t first = warning.find("run() made no step: its function called no Optimizer");
  EXPECT_NE(first, std::string::npos) << warning;
  EXPECT_EQ(warning.find("made no step", first + 20), std::string::npos) << warning;
  EXPECT_THAT(warning, HasSubstr("{.training = false}"));
  EXPECT_EQ(said({.training = false}, true).find("made no step"), std::string::npos);
  EXPECT_EQ(said({}, false).find("made no step"), std::string::npos);
}

// What the log says while `work` runs.
std::string log_of(const std::function<void()>& work) {
  ::testing::internal::CaptureStderr();
  work();
  log::flush();
  return ::testing::internal::GetCapturedStderr();
}

// A pattern with a typo would train everything in silence. One replica says it once, wherever
// variables lie and whichever replica uses them.
TEST(LoopLawTest, APatternThatIsInNoNameIsToldOnce) {
  const auto said = [](const StrategyPtr& strategy, const std::string& pattern) {
    return log_of([&] {
      const auto scope = strategy->scope(alone());
      const Layer table = Embedding(5, 2), model = Dense(1);
      auto optimizer = optim::adamw({.exclude_from_weight_decay = {pattern}});
      optimizer = optim::learning_rate_multipliers(optimizer, {{pattern, 0.5}});
      optimizer = optim::freeze(optimizer, {pattern});
      for (int call = 0; call < 3; ++call) {
        strategy->run([&] {
          const Tensor ids = torch::zeros({4}, at::kLong);
          optimizer.minimize(model(table(ids)).sum());
        });
      }
    });
  };
  const auto count = [](const std::string& text) {
    int found = 0;
    for (size_t at = text.find("in the name of no variable"); at != std::string::npos;
         at = text.find("in the name of no variable", at + 1))
      ++found;
    return found;
  };
  for (const StrategyPtr& strategy :
       {one_device(), mirrored({.replicas = 2}), mirrored({.replicas = 3}),
        multi_worker_mirrored({.local_replicas = 2, .bytes_per_pack = 4})}) {
    const std::string warnings = said(strategy, "^dens/");
    EXPECT_EQ(count(warnings), 3) << strategy->name() << ": " << warnings;
    EXPECT_THAT(warnings, HasSubstr("freeze: variables has \"^dens/\""));
    EXPECT_THAT(warnings, HasSubstr("did you mean 'dense'?"));
    for (const char* pattern : {"^dense/", "embeddings$", "bias|nothing"})
      EXPECT_EQ(count(said(strategy, pattern)), 0) << strategy->name() << ": " << pattern;
  }
}

// As an Estimator's model function does.
TEST(LoopTest, WhatAFunctionThrowsSaysWhere) {
  const auto run = [](const StrategyPtr& strategy, int failing, const std::function<void()>& fail) {
    const auto scope = strategy->scope(alone());
    const Layer model = Dense(1);
    for (int64_t step = 0; step < 3; ++step) {
      strategy->run([&] {
        if (step == 2 && ReplicaContext::current().replica_id() == failing) fail();
        optim::sgd().minimize(model(torch::ones({4, 2})).sum());
      });
    }
  };
  const auto mine = [] { throw std::runtime_error("mine"); };
  const StrategyPtr two = mirrored({.replicas = 2});
  EXPECT_THAT(log_of([&] { EXPECT_THROW(run(two, 1, mine), std::runtime_error); }),
              AllOf(HasSubstr("the function of run() failed at step 3 on replica 1\n"),
                    testing::Not(HasSubstr("mine"))));
  EXPECT_THAT(log_of([&] { EXPECT_THROW(run(one_device(), 0, mine), std::runtime_error); }),
              HasSubstr("the function of run() failed at step 3\n"));
  const Error own = error_of([&] { run(two, 1, [] { throw not_found("no such row"); }); });
  EXPECT_EQ(own.kind(), ErrorKind::kNotFound);
  EXPECT_EQ(own.message(), "no such row; at step 3 on replica 1");
  const Error torch_error = error_of([&] {
    run(two, 0, [] { (void)torch::ones({2, 3}).matmul(torch::ones({2, 3})); });
  });
  EXPECT_EQ(torch_error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(torch_error.message(),
              HasSubstr("the function of run() failed at step 3 on replica 0: "));
  const auto scope = two->scope(alone());
  EXPECT_THAT(error_of([&] {
                two->run({.training = false}, [] { throw not_found("no such row"); });
              }).message(),
              HasSubstr("no such row; after step 0 on replica "));
}

// A layer that every replica makes and only some use, while statistics over all replicas are
// reduced in the middle of backward.
TEST(LoopTest, CollectivesInBackwardStandBesideVariablesThatSomeReplicasUse) {
  const auto train = [](int replicas, std::optional<int64_t> bytes_per_pack, int64_t accumulate) {
    const StrategyPtr strategy =
        multi_worker_mirrored({.local_replicas = replicas, .bytes_per_pack = bytes_per_pack});
    ScopeOptions options = alone(7);
    options.accumulate_steps = accumulate;
    const auto scope = strategy->scope(options);
    const Layer first = Dense(6), norm = BatchNormalization({.synchronized = true}),
                second = Dense(6), again = BatchNormalization({.synchronized = true}),
                top = Dense(1), extra = Dense(1);
    const auto sgd = optim::sgd({.learning_rate = 0.1});
    int64_t call = -1;  // the first one makes the variables
    for (const auto& batch : strategy->distribute(points(48).repeat(2).batch(12))) {
      ++call;
      strategy->run(
          [&](const Features& x, const Labels& y) {
            const Tensor hidden = again(second(torch::tanh(norm(first(x)))));
            Tensor made = top(hidden);
            // The last of the forward, so the first of backward: before both reductions.
            const Tensor more = extra(hidden);
            if ((ReplicaContext::current().replica_id() + call) % 2 == 0) made = made + more;
            sgd.minimize(losses::mean_squared_error(y, made));
          },
          batch);
    }
    std::vector<Tensor> values;
    for (const std::string& name : scope.variable_names()) values.push_back(scope.variable(name));
    return values;
  };
  for (const int replicas : {2, 3}) {
    for (const int64_t accumulate : {1, 2}) {
      // One bucket, which leaves last, is what many are compared with.
      const std::vector<Tensor> expected = train(replicas, 0, accumulate);
      EXPECT_EQ(expected.size(), 16u);
      for (const int64_t bytes : {4, 256}) {
        const std::vector<Tensor> values = train(replicas, bytes, accumulate);
        ASSERT_EQ(values.size(), expected.size());
        for (size_t v = 0; v < values.size(); ++v) EXPECT_TRUE(values[v].equal(expected[v])) << v;
      }
    }
  }
}

TEST(LoopTest, StrategiesHaveNames) {
  EXPECT_EQ(strategy_by_name("one_device")->name(), "OneDevice");
  EXPECT_EQ(strategy_by_name("mirrored")->name(), "Mirrored");
  EXPECT_EQ(strategy_by_name("multi_worker")->name(), "MultiWorkerMirrored");
  const StrategyPtr three = strategy_by_name("mirrored:3");
  EXPECT_EQ(three->scope(alone()).num_replicas_in_sync(), 3);
  for (const char* wrong : {"", "mirrored:", "mirrored:0", "mirrored:two", "Mirrored"}) {
    EXPECT_THAT(error_of([&] { strategy_by_name(wrong); }).message(),
                HasSubstr(std::string("there is no strategy '") + wrong + "'"));
  }
}

// --- summaries -----------------------------------------------------------------------------------

std::map<std::string, std::map<int64_t, decltype(formats::SummaryValue::value)>> summaries_of(
    int replicas, const std::string& directory) {
  const auto strategy = mirrored({.replicas = replicas});
  {
    ScopeOptions options = alone(7);
    options.summary_dir = directory;
    options.save_summary_steps = 2;
    const auto scope = strategy->scope(options);
    const Layer model = Dense(1);
    const auto sgd = optim::sgd({.learning_rate = 0.1});
    const auto show = [&](const Features& x) {
      Summaries& summary = ReplicaContext::current().summary();
      summary.scalar("mean", [&] { return x.tensor().mean(); });
      summary.histogram("x", x.tensor());
    };
    for (const auto& batch : strategy->distribute(points(40).batch(12))) {
      // A call that does not train shows nothing.
      strategy->run(
          RunOptions{.training = false},
          [&](const Features& x, const Labels&) {
            show(x);
            ReplicaContext::current().summary().scalar("unseen", 1.0);
          },
          batch);
      strategy->run(
          [&](const Features& x, const Labels& y) {
            show(x);
            sgd.minimize(losses::mean_squared_error(y, model(x)));
          },
          batch);
    }
  }
  std::map<std::string, std::map<int64_t, decltype(formats::SummaryValue::value)>> points;
  for (const auto& path : formats::list_event_files(local_file_system(), directory).value()) {
    for (auto& event : formats::read_events(local_file_system(), path).value().events)
      for (auto& value : event.values) points[value.tag][event.step] = std::move(value.value);
  }
  return points;
}

TEST(LoopSummariesTest, ReplicasShowWhatOneShows) {
  TempDirectory directory;
  const auto one = summaries_of(1, directory / "1");
  ASSERT_EQ(one.at("loss").size(), 2u);  // steps 1 and 3 of 4
  EXPECT_EQ(std::get<formats::Histogram>(one.at("x").at(1)).count, 24);
  EXPECT_FALSE(one.contains("unseen"));
  for (const int replicas : {2, 3}) {
    const auto many = summaries_of(replicas, directory / std::to_string(replicas));
    for (const int64_t step : {1, 3}) {
      EXPECT_NEAR(std::get<float>(many.at("mean").at(step)),
                  std::get<float>(one.at("mean").at(step)), 1e-6);
      EXPECT_NEAR(std::get<float>(many.at("loss").at(step)),
                  std::get<float>(one.at("loss").at(step)), 1e-5);
      EXPECT_EQ(std::get<formats::Histogram>(many.at("x").at(step)).counts,
                std::get<formats::Histogram>(one.at("x").at(step)).counts);
    }
  }
}

TEST(LoopSummariesTest, StepsBetweenThemAreAtLeastOne) {
  const auto strategy = one_device();
  ScopeOptions options = alone();
  options.save_summary_steps = 0;
  EXPECT_THAT(error_of([&] { (void)strategy->scope(options); }).what(),
              HasSubstr("ScopeOptions.save_summary_steps is 0; it must be at least 1"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
