// Invariants of training on parameter servers; each task is a thread with its own TF_CONFIG.
#include "muster/ps/parameter_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/estimator/testing/test_model.h"
#include "muster/layers/embedding.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using distribute::ParameterServerOptions;
using nlohmann::json;
using testing::examples;
using ::testing::HasSubstr;
using testing::largest_difference;
using testing::latest;
using testing::LocalCluster;
using testing::quiet_config;
using testing::same_bits;
using testing::two_layers;

// A chief, `workers` - 1 workers and `servers` parameter servers that share a model_dir.
struct Tasks {
  int workers = 1;
  int servers = 1;
  ParameterServerOptions options = {};
};

void train_on(const Tasks& tasks, const std::string& model_dir, const ModelFn& model_fn,
              const json& params, const InputFn& input, const TrainOptions& options,
              const std::function<void(int rank, const TrainResult&)>& seen = {}) {
  const LocalCluster cluster(tasks.workers, /*chief=*/true, tasks.servers);
  testing::run_ranks(tasks.workers + tasks.servers, [&](int task) {
    const bool serves = task >= tasks.workers;
    Estimator estimator(model_fn,
                        quiet_config(model_dir, distribute::parameter_server(tasks.options),
                                     serves ? cluster.server_environment(task - tasks.workers)
                                            : cluster.environment(task)),
                        params);
    const TrainResult result = estimator.train(input, options);
    if (seen && !serves) seen(task, result);
  });
}

Checkpoint train_alone(const std::string& model_dir, const ModelFn& model_fn, const json& params,
                       const InputFn& input, const TrainOptions& options) {
  Estimator(model_fn, quiet_config(model_dir), params).train(input, options);
  return latest(model_dir);
}

// --- one worker on servers computes the same as alone ---

struct AloneCase {
  std::string optimizer{};
  int servers{};
  bool shared_memory = true;
};

class AloneLawTest : public ::testing::TestWithParam<AloneCase> {};

TEST_P(AloneLawTest, OneWorkerHasTheBitsOfARunWithoutServers) {
  const auto [optimizer, servers, shared_memory] = GetParam();
  TempDirectory directory;
  const json params{{"optimizer", optimizer}};
  const InputFn input = [] { return examples(53).shuffle(53).repeat(2).batch(12); };
  const Checkpoint alone =
      train_alone(directory / "alone", two_layers, params, input, {.max_steps = 8});
  train_on({.servers = servers,
            .options = {.partitioner = plan::Partitioner::fixed(servers),
                        .shared_memory = shared_memory}},
           directory / "servers", two_layers, params, input, {.max_steps = 8});
  const Checkpoint served = latest(directory / "servers");
  EXPECT_EQ(served.global_step, 8);
  EXPECT_TRUE(same_bits(served, alone)) << largest_difference(served, alone);
}
INSTANTIATE_TEST_SUITE_P(Cases, AloneLawTest,
                         ::testing::Values(AloneCase{"sgd", 1}, AloneCase{"momentum", 2},
                                           AloneCase{"adam", 3}, AloneCase{"clipped", 2},
                                           AloneCase{"adam", 1, false},
                                           AloneCase{"momentum", 2, false}));

// Ids of a table of which a step uses few rows.
Dataset sentences(int64_t rows) {
  Tensor ids = torch::arange(rows * 3).reshape({rows, 3}).remainder(23);
  return Dataset::from_tensor_slices(Element::tuple({ids, ids.sum(1).remainder(2)}));
}

EstimatorSpec words(const Features& features, const Labels& labels, Mode mode,
                    ModelContext& context) {
  const auto table =
      context.model("net", [] { return Sequential({Embedding(40, 4, {.row_sparse = true})}); });
  const auto top = context.model("top", [] { return Dense(2); });
  const Tensor logits = top(table(features).mean(1));
  const Tensor loss = testing::loss_of(logits, labels);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  return EstimatorSpec::train(
      loss, context.optimizer(testing::make_optimizer(context.params().value("optimizer", "sgd")))
                .minimize(loss));
}

TEST(ParameterServerTest, RowsOfTablesTrainWhereTheyAre) {
  TempDirectory directory;
  const InputFn input = [] { return sentences(60).repeat(2).batch(8); };
  for (const std::string optimizer : {"sgd", "adam", "adagrad"}) {
    const json params{{"optimizer", optimizer}};
    const Checkpoint alone =
        train_alone(directory / (optimizer + "_alone"), words, params, input, {.max_steps = 12});
    for (const bool shared : {true, false}) {
      const std::string model_dir = directory / (optimizer + (shared ? "_shared" : "_sent"));
      train_on({.servers = 2,
                .options = {.partitioner = plan::Partitioner::fixed(3), .shared_memory = shared}},
               model_dir, words, params, input, {.max_steps = 12});
      EXPECT_TRUE(same_bits(latest(model_dir), alone)) << optimizer << " " << shared;
    }
  }
}

// More gradients of rows than the memory for them has at first.
TEST(ParameterServerTest, ManyRowsFindRoom) {
  TempDirectory directory;
  const InputFn input = [] {
    Tensor ids = torch::arange(3000 * 3).reshape({3000, 3});
    return Dataset::from_tensor_slices(Element::tuple({ids, ids.sum(1).remainder(2)})).batch(1000);
  };
  const ModelFn wide = [](const Features& features, const Labels& labels, Mode,
                          ModelContext& context) {
    const auto table = context.model(
        "net", [] { return Sequential({Embedding(9000, 128, {.row_sparse = true})}); });
    const auto top = context.model("top", [] { return Dense(2); });
    const Tensor loss = testing::loss_of(top(table(features).mean(1)), labels);
    return EstimatorSpec::train(
        loss, context.optimizer(optim::sgd({.learning_rate = 0.1})).minimize(loss));
  };
  const Checkpoint alone = train_alone(directory / "alone", wide, json::object(), input, {});
  train_on({}, directory / "served", wide, json::object(), input, {});
  EXPECT_TRUE(same_bits(latest(directory / "served"), alone));
}

TEST(ParameterServerTest, FloatsMayTravelInHalfTheBytes) {
  TempDirectory directory;
  const InputFn input = [] { return sentences(60).repeat(2).batch(8); };
  const Checkpoint alone =
      train_alone(directory / "alone", words, json::object(), input, {.max_steps = 12});
  train_on({.servers = 2, .options = {.wire_dtype = kBFloat16}}, directory / "served", words,
           json::object(), input, {.max_steps = 12});
  const double difference = largest_difference(latest(directory / "served"), alone);
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 0.02);
}

// A table that no optimizer trains is on no server, and still has its values.
TEST(ParameterServerTest, AFrozenTableKeepsItsValues) {
  TempDirectory directory;
  const ModelFn frozen = [](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    EstimatorSpec spec = words(features, labels, mode, context);
    spec.train_op = context.optimizer(optim::sgd({.learning_rate = 0.1}))
                        .minimize(spec.loss, [](const VariableSpec& variable) {
                          return variable.name.find("embedding") == std::string::npos;
                        });
    return spec;
  };
  const InputFn input = [] { return sentences(60).repeat(2).batch(8); };
  const Checkpoint alone =
      train_alone(directory / "alone", frozen, json::object(), input, {.max_steps = 6});
  train_on({.servers = 2}, directory / "served", frozen, json::object(), input, {.max_steps = 6});
  EXPECT_TRUE(same_bits(latest(directory / "served"), alone));
  EXPECT_GT(alone.tensors.at("net/embedding/embeddings").abs().sum().item<double>(), 0);
}

// A chief that trains on little data saves the others' updates.
TEST(ParameterServerTest, TheChiefSavesAlsoWhenItsDataIsUsedUp) {
  TempDirectory directory;
  const InputFn input = [](const InputContext& context) {
    return examples(context.input_pipeline_id == 0 ? 10 : 400).batch(10);
  };
  const ModelFn slow = [](const Features& features, const Labels& labels, Mode mode,
                          ModelContext& context) {
    // The chief asks once in a second how far the others are: they must be at work for longer.
    if (torch::GradMode::is_enabled()) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    return two_layers(features, labels, mode, context);
  };
  train_on({.workers = 2}, directory / "model", slow, json::object(), input, {});
  EXPECT_EQ(latest(directory / "model").global_step, 41);
  EXPECT_GT(CheckpointManager(directory / "model").all().size(), 2u);
}

// --- several workers ---

TEST(ParameterServerTest, WorkersMakeExactlyTheStepsAskedFor) {
  TempDirectory directory;
  train_on(
      {.workers = 3, .servers = 2}, directory / "model", two_layers, {{"optimizer", "adam"}},
      [] { return examples(100).shuffle(100).repeat().batch(10); }, {.max_steps = 50},
      [&](int, const TrainResult& result) { EXPECT_EQ(result.global_step, 50); });
  const Checkpoint last = latest(directory / "model");
  EXPECT_EQ(last.global_step, 50);
  EXPECT_EQ(last.tensors.at("Adam/iterations").item<int64_t>(), 50);
}

TEST(ParameterServerTest, EachExampleIsTrainedOnOnce) {
  TempDirectory directory;
  std::mutex mutex;
  std::map<int64_t, int> seen;
  const ModelFn recording = [&](const Features& features, const Labels& labels, Mode mode,
                                ModelContext& context) {
    if (torch::GradMode::is_enabled()) {
      const std::lock_guard lock(mutex);
      for (int64_t i = 0; i < features["id"].size(0); ++i)
        ++seen[features["id"][i].item<int64_t>()];
    }
    return two_layers(features, labels, mode, context);
  };
  train_on(
      {.workers = 3, .servers = 1}, directory / "model", recording, json::object(),
      [] { return examples(91).shuffle(91).batch(7); }, {},
      [](int, const TrainResult& result) { EXPECT_TRUE(result.end_of_input); });
  EXPECT_EQ(seen.size(), 91u);
  for (const auto& [id, times] : seen) EXPECT_EQ(times, 1) << id;
}

TEST(ParameterServerTest, AWorkerWithoutDataIsNoHindrance) {
  TempDirectory directory;
  // Worker 1 of 2 gets none.
  const InputFn input = [](const InputContext& context) {
    return examples(30).skip(context.input_pipeline_id == 0 ? 0 : 30).batch(10);
  };
  train_on({.workers = 2}, directory / "model", two_layers, json::object(), input, {},
           [](int, const TrainResult& result) {
             EXPECT_EQ(result.global_step, 3);
             EXPECT_TRUE(result.end_of_input);
           });
}

// An update takes the batch of one worker: the number of examples is the same, whichever way the
// size is given.
TEST(ParameterServerTest, AGlobalBatchIsThatOfAnUpdate) {
  TempDirectory directory;
  train_on({.workers = 2}, directory / "model", two_layers, json::object(),
           [] { return examples(60).shuffle(60).global_batch(10); }, {});
  EXPECT_EQ(latest(directory / "model").global_step, 6);
}

TEST(ParameterServerTest, ContinuesOnAnotherNumberOfServers) {
  TempDirectory directory;
  const json params{{"optimizer", "adam"}};
  const InputFn input = [] { return examples(60).shuffle(60).repeat().batch(10); };
  const Checkpoint alone =
      train_alone(directory / "alone", two_layers, params, input, {.max_steps = 20});
  const ParameterServerOptions cut{.partitioner = plan::Partitioner::fixed(3)};
  train_on({.servers = 1, .options = cut}, directory / "model", two_layers, params, input,
           {.max_steps = 7});
  train_on({.servers = 3, .options = cut}, directory / "model", two_layers, params, input,
           {.max_steps = 13});
  train_on({.servers = 2, .options = {.placement = plan::Placement::kByBytes}}, directory / "model",
           two_layers, params, input, {.max_steps = 20});
  EXPECT_TRUE(same_bits(latest(directory / "model"), alone));
}

TEST(ParameterServerTest, NothingIsTrainedWhereMaxStepsIsReached) {
  TempDirectory directory;
  for (int run = 0; run < 2; ++run) {
    train_on(
        {.workers = 2, .servers = 2}, directory / "model", two_layers, json::object(),
        [] { return examples(60).repeat().batch(10); }, {.max_steps = 5},
        [&](int, const TrainResult& result) {
          if (run > 0) {
            EXPECT_EQ(result.steps, 0);
          }
        });
  }
  EXPECT_EQ(latest(directory / "model").global_step, 5);
}

// --- synchronous updates ---

// All workers' gradients make each update: that is one worker with a batch as large.
TEST(ParameterServerTest, TogetherWorkersComputeWhatOneComputes) {
  TempDirectory directory;
  for (const std::string optimizer : {"sgd", "adam"}) {
    const json params{{"optimizer", optimizer}};
    const Checkpoint alone =
        train_alone(directory / (optimizer + "_alone"), two_layers, params,
                    [] { return examples(60).shuffle(60).repeat(2).batch(12); }, {.max_steps = 9});
    train_on({.workers = 3,
              .servers = 2,
              .options = {.partitioner = plan::Partitioner::fixed(2), .replicas_to_aggregate = 3}},
             directory / optimizer, two_layers, params,
             [] { return examples(60).shuffle(60).repeat(2).batch(4); }, {.max_steps = 9});
    EXPECT_LT(largest_difference(latest(directory / optimizer), alone), 1e-5) << optimizer;
  }
}

TEST(ParameterServerTest, RowsOfTablesAreSummedOverWorkers) {
  TempDirectory directory;
  const Checkpoint alone = train_alone(directory / "alone", words, json::object(),
                                       [] { return sentences(60).repeat(2).batch(8); }, {});
  train_on({.workers = 2, .servers = 2, .options = {.replicas_to_aggregate = 2}},
           directory / "together", words, json::object(),
           [] { return sentences(60).repeat(2).batch(4); }, {});
  EXPECT_LT(largest_difference(latest(directory / "together"), alone), 1e-5);
}

TEST(ParameterServerTest, BackupsComeToNothingAndAreNoHindrance) {
  TempDirectory directory;
  train_on({.workers = 3, .servers = 2, .options = {.replicas_to_aggregate = 2}},
           directory / "model", two_layers, {{"optimizer", "momentum"}},
           [] { return examples(100).repeat().batch(10); }, {.max_steps = 30});
  EXPECT_EQ(latest(directory / "model").global_step, 30);
  EXPECT_EQ(latest(directory / "model").tensors.at("SGD/iterations").item<int64_t>(), 30);
}

TEST(ParameterServerTest, StalenessMayBeBounded) {
  TempDirectory directory;
  train_on({.workers = 3, .servers = 2, .options = {.max_staleness = 0}}, directory / "model",
           two_layers, {{"optimizer", "momentum"}}, [] { return examples(100).repeat().batch(10); },
           {.max_steps = 30});
  EXPECT_EQ(latest(directory / "model").global_step, 30);
}

// --- a step is computed while the one before is on its way ---

// One weight w, whose gradient is w: a step subtracts a tenth of the value at the time of the look.
EstimatorSpec shrinking(const Features&, const Labels&, Mode, ModelContext& context) {
  const Tensor w = context.variables()
                       .get_or_create({.name = "w",
                                       .shape = {1},
                                       .initializer =
                                           [](const Shape& shape, DType dtype, RandomKey) {
                                             return torch::ones(shape, at::dtype(dtype));
                                           }})
                       .value();
  const Tensor loss = (w * w).sum() / 2;
  return EstimatorSpec::train(loss,
                              context.optimizer(optim::sgd({.learning_rate = 0.1})).minimize(loss));
}

TEST(ParameterServerTest, StepsThatOverlapLackTheOneBefore) {
  TempDirectory directory;
  for (const bool shared : {false, true}) {
    const std::string model_dir = directory / (shared ? "shared" : "sent");
    train_on({.options = {.shared_memory = shared, .overlap = true}}, model_dir, shrinking,
             json::object(), [] { return examples(60).batch(10); }, {.max_steps = 6});
    float before = 1, w = 1;
    for (int step = 0; step < 6; ++step) before = std::exchange(w, w - 0.1F * before);
    EXPECT_NEAR(latest(model_dir).tensors.at("w").item<float>(), w, 1e-6);
  }
}

// Which of them are on their way when is no matter of chance.
TEST(ParameterServerTest, StepsThatOverlapHaveTheSameBitsOnAnyServers) {
  TempDirectory directory;
  const json params{{"optimizer", "adam"}};
  const auto train = [&](const std::string& name, const ModelFn& model_fn, const Dataset& data,
                         int servers, bool shared) {
    train_on({.servers = servers,
              .options = {.partitioner = plan::Partitioner::fixed(servers),
                          .shared_memory = shared,
                          .overlap = true}},
             directory / name, model_fn, params, [&] { return data; }, {.max_steps = 12});
    return latest(directory / name);
  };
  const Dataset numbers = examples(53).shuffle(53).repeat().batch(12);
  const Checkpoint one = train("one", two_layers, numbers, 1, true);
  EXPECT_EQ(one.global_step, 12);
  EXPECT_TRUE(same_bits(train("two", two_layers, numbers, 2, true), one));
  EXPECT_TRUE(same_bits(train("sent", two_layers, numbers, 2, false), one));
}

TEST(ParameterServerTest, RowsOfTablesTrainWhileStepsOverlap) {
  TempDirectory directory;
  for (const bool shared : {true, false}) {
    const std::string model_dir = directory / (shared ? "shared" : "sent");
    train_on({.workers = 2,
              .servers = 2,
              .options = {.partitioner = plan::Partitioner::fixed(3),
                          .shared_memory = shared,
                          .overlap = true}},
             model_dir, words, {{"optimizer", "adam"}}, [] { return sentences(60).batch(5); }, {});
    EXPECT_EQ(latest(model_dir).global_step, 12);
  }
}

// Also if workers wait for each other, and where a step was computed that is one too many.
TEST(ParameterServerTest, StepsAreExactAlsoWhereTheyOverlap) {
  TempDirectory directory;
  for (const bool shared : {true, false}) {
    const std::string model_dir = directory / (shared ? "shared" : "sent");
    train_on(
        {.workers = 3,
         .servers = 2,
         .options = {.max_staleness = shared ? 1 : 2, .shared_memory = shared, .overlap = true}},
        model_dir, two_layers, {{"optimizer", "adam"}},
        [] { return examples(100).repeat().batch(10); }, {.max_steps = 40},
        [&](int, const TrainResult& result) { EXPECT_EQ(result.global_step, 40); });
    EXPECT_EQ(latest(model_dir).global_step, 40);
    EXPECT_EQ(latest(model_dir).tensors.at("Adam/iterations").item<int64_t>(), 40);
  }
}

// A task that joins again finds its pending step in the weights, or its data not read.
TEST(ParameterServerTest, NoStepIsLostWhereATaskJoinsAgainWhileOneIsOnItsWay) {
  TempDirectory directory;
  for (const int64_t lost_at : {3, 6}) {
    const std::string model_dir = directory / std::to_string(lost_at);
    std::atomic<int64_t> calls = 0;
    const ModelFn losing = [&](const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
      if (torch::GradMode::is_enabled() && ++calls == lost_at)
        throw Error(ErrorKind::kPeerLost, "ps 0 was lost");
      return two_layers(features, labels, mode, context);
    };
    train_on({.servers = 2, .options = {.overlap = true}}, model_dir, losing, json::object(),
             [] { return examples(80).batch(10); }, {});
    EXPECT_EQ(latest(model_dir).global_step, 8);
    EXPECT_EQ(calls, 9);
  }
}

TEST(ParameterServerTest, AMistakeEndsTheRunWhileAStepIsOnItsWay) {
  TempDirectory directory;
  const ModelFn mistaken = [calls = std::make_shared<std::atomic<int64_t>>(0)](
                               const Features& features, const Labels& labels, Mode mode,
                               ModelContext& context) {
    if (torch::GradMode::is_enabled() && ++*calls == 5) throw invalid_argument("no such column");
    return two_layers(features, labels, mode, context);
  };
  EXPECT_THAT(message_of([&] {
                train_on({.workers = 2, .options = {.overlap = true}}, directory / "model",
                         mistaken, json::object(), [] { return examples(200).repeat().batch(10); },
                         {.max_steps = 1000});
              }),
              HasSubstr("no such column"));
}

// --- mistakes ---

TEST(ParameterServerTest, OptionsThatContradictOverlapAreRefused) {
  EXPECT_THAT(message_of([] {
                distribute::parameter_server({.replicas_to_aggregate = 2, .overlap = true});
              }),
              HasSubstr("both overlap and replicas_to_aggregate"));
  EXPECT_THAT(
      message_of([] { distribute::parameter_server({.max_staleness = 0, .overlap = true}); }),
      HasSubstr("a max_staleness of 0"));
}

TEST(ParameterServerTest, AStrategyWithoutServersIsRefusedByAll) {
  TempDirectory directory;
  const LocalCluster cluster(1, /*chief=*/true, /*servers=*/1);
  for (const auto& strategy : {distribute::multi_worker_mirrored(),
                               distribute::mirrored({.replicas = 2}), distribute::one_device()}) {
    const auto error = [&](const Environment& environment) {
      return error_of([&] {
        Estimator(two_layers, quiet_config(directory / "model", strategy, environment)).train([] {
          return examples(10).batch(5);
        });
      });
    };
    const std::string name(strategy->name());
    EXPECT_THAT(error(cluster.server_environment(0)).message(),
                HasSubstr(name + " has no parameter servers"));
    const Error chiefs = error(cluster.environment(0));
    EXPECT_THAT(chiefs.message(),
                HasSubstr("lists parameter servers, which " + name + " does not use"));
    EXPECT_THAT(chiefs.hint(), HasSubstr(".train_distribute = distribute::parameter_server()"));
    EXPECT_THAT(chiefs.hint(), HasSubstr("--strategy=parameter_server"));
  }
}

TEST(ParameterServerTest, AClusterWithoutServersIsRefused) {
  TempDirectory directory;
  const LocalCluster cluster(2, /*chief=*/true);
  EXPECT_THAT(message_of([&] {
                Estimator(two_layers,
                          quiet_config(directory / "model", distribute::parameter_server(),
                                       cluster.environment(0)))
                    .train([] { return examples(10).batch(5); });
              }),
              HasSubstr("lists no parameter servers"));
}

TEST(ParameterServerTest, WithoutAClusterOneProcessTrains) {
  TempDirectory directory;
  Estimator(two_layers, quiet_config(directory / "model", distribute::parameter_server()))
      .train([] { return examples(10).batch(5); });
  EXPECT_EQ(latest(directory / "model").global_step, 2);
}

TEST(ParameterServerTest, OtherOptionsAreRefused) {
  TempDirectory directory;
  const LocalCluster cluster(1, /*chief=*/true, /*servers=*/1);
  std::string message;
  testing::run_ranks(2, [&](int task) {
    RunConfig config =
        quiet_config(directory / "model",
                     distribute::parameter_server({.wire_dtype = task == 1 ? kBFloat16 : kFloat32}),
                     task == 1 ? cluster.server_environment(0) : cluster.environment(0));
    if (task == 1) config.join_timeout = Seconds(2);
    Estimator estimator(two_layers, config);
    const Error error =
        error_of([&] { estimator.train([] { return examples(10).batch(5); }, {.max_steps = 2}); });
    if (task == 0) message = error.message();
  });
  EXPECT_THAT(message, HasSubstr("wire_dtype=bfloat16"));
}

TEST(ParameterServerTest, AWorkerOfAnotherModelIsRefused) {
  TempDirectory directory;
  const LocalCluster cluster(2, /*chief=*/true, /*servers=*/1);
  std::mutex mutex;
  std::map<int, std::string> messages;
  testing::run_ranks(3, [&](int task) {
    Estimator estimator(
        two_layers,
        quiet_config(directory / "model", distribute::parameter_server(),
                     task == 2 ? cluster.server_environment(0) : cluster.environment(task)),
        {{"optimizer", task == 1 ? "adam" : "sgd"}});
    const std::string message =
        message_of([&] { estimator.train([] { return examples(10).repeat().batch(5); }); });
    const std::lock_guard lock(mutex);
    messages[task] = message;
  });
  for (const auto& [task, message] : messages) EXPECT_THAT(message, HasSubstr("Adam")) << task;
  EXPECT_THAT(messages[0], HasSubstr("worker 0 failed"));
}

TEST(ParameterServerTest, AServerOfAnotherModelIsNamed) {
  TempDirectory directory;
  const LocalCluster cluster(1, /*chief=*/true, /*servers=*/1);
  std::atomic<int> refused{0};
  testing::run_ranks(2, [&](int task) {
    Estimator estimator(
        two_layers,
        quiet_config(directory / "model", distribute::parameter_server(),
                     task == 1 ? cluster.server_environment(0) : cluster.environment(0)),
        {{"optimizer", task == 1 ? "adam" : "sgd"}});
    const std::string message = message_of(
        [&] { estimator.train([] { return examples(10).batch(5); }, {.max_steps = 2}); });
    EXPECT_THAT(message, HasSubstr("Adam"));
    ++refused;
  });
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace muster::inline v0_1
