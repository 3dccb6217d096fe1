// Invariants of training modules of LibTorch. The results are compared with a bare loop of
// LibTorch, which knows nothing of Muster.
#include <gmock/gmock.h>

#include <algorithm>
#include <mutex>

#include "muster/base/temp_directory.h"
#include "tests/support/test_device.h"
#include "tests/torch_module/nets.h"

namespace muster::torch_nets {
namespace {

using ::testing::ElementsAre;
using testing::LocalCluster;
using testing::run_ranks;

// The name that the adopted module's tensor `key` has: "net/conv/weight" of "conv.weight".
std::string muster_name(std::string key) {
  std::replace(key.begin(), key.end(), '.', '/');
  return "net/" + key;
}

// --- invariants of training ----------------------------------------------------------------------

// The loop that a LibTorch user writes by hand.
struct BareLoop {
  explicit BareLoop(std::shared_ptr<torch::nn::Module> module, double rate = 0.1)
      : module(module), sgd(module->parameters(), torch::optim::SGDOptions(rate)) {}

  template <typename Net>
  void run(int64_t steps, int64_t batch) {
    const Rows all = rows(batch * steps);
    module->train();
    for (int64_t step = 0; step < steps; ++step) {
      sgd.zero_grad();
      const Tensor logits = std::static_pointer_cast<Net>(module)->forward(
          all.x.slice(0, step * batch, (step + 1) * batch));
      torch::nn::functional::cross_entropy(logits,
                                           all.label.slice(0, step * batch, (step + 1) * batch))
          .backward();
      sgd.step();
    }
  }

  std::shared_ptr<torch::nn::Module> module;
  torch::optim::SGD sgd;
};

// A module with the initial values of "net" in a run of that seed.
template <typename Net>
std::shared_ptr<Net> fresh(uint64_t seed) {
  Alone alone(Mode::kTrain, seed);
  return torch_module<Net>(alone.context, "net").get();
}

template <typename Net>
void expect_bare_loop(int64_t steps) {
  TempDirectory directory;
  const Checkpoint ours =
      train(directory / "m", {.model = model_of<Net>(),
                              .max_steps = steps,
                              .input = [&] { return dataset(12 * steps).global_batch(12); },
                              .seed = 7});
  BareLoop bare(fresh<Net>(7));
  bare.run<Net>(steps, 12);
  int64_t compared = 0;
  for (const auto& tensors : {bare.module->named_parameters(), bare.module->named_buffers()}) {
    for (const auto& item : tensors) {
      const std::string name = muster_name(item.key());
      expect_close(ours.tensors.at(name), item.value(), 1e-6, name);
      ++compared;
    }
  }
  EXPECT_EQ(static_cast<size_t>(compared) + 1, ours.tensors.size());  // and SGD/iterations
}

TEST(TorchModuleLawTest, TrainsWhatABareLoopTrains) { expect_bare_loop<Plain>(20); }

TEST(TorchModuleLawTest, BatchNormHasTheStatisticsOfABareLoop) { expect_bare_loop<Normed>(20); }

// The same net in Muster's layers, from the same initial weights.
TEST(TorchModuleLawTest, TrainsWhatLayersTrain) {
  const auto copy_of = [](const Tensor& value) {
    return Initializer([value](const Shape&, DType, RandomKey) { return value.detach().clone(); });
  };
  const auto start = fresh<Plain>(7);
  const ModelFn layers = [&](const Features& features, const Labels& labels, Mode mode,
                             ModelContext& context) {
    auto model = context.model("net", [&] {
      return Sequential({Dense(kHidden, {.activation = activations::relu,
                                         .kernel_initializer = copy_of(start->fc1->weight.t()),
                                         .bias_initializer = copy_of(start->fc1->bias)}),
                         Dense(kClasses, {.kernel_initializer = copy_of(start->fc2->weight.t()),
                                          .bias_initializer = copy_of(start->fc2->bias)})});
    });
    return spec_of(model(features["x"]), labels, mode, context);
  };
  TempDirectory directory;
  const json adam{{"adam", true}};
  const Checkpoint a = train(directory / "a", {.model = layers, .params = adam, .seed = 7});
  const Checkpoint b =
      train(directory / "b", {.model = model_of<Plain>(), .params = adam, .seed = 7});
  for (const auto& [layer, module] : {std::pair{"dense", "fc1"}, std::pair{"dense_1", "fc2"}}) {
    const std::string left = std::string("net/") + layer, right = std::string("net/") + module;
    expect_close(a.tensors.at(left + "/kernel").t(), b.tensors.at(right + "/weight"), 1e-5, left);
    expect_close(a.tensors.at(left + "/bias"), b.tensors.at(right + "/bias"), 1e-5, left);
  }
}

void expect_same_bits_of_a_seed(int workers) {
  TempDirectory directory;
  const auto run = [&](const char* name, uint64_t seed) {
    return train(directory / name,
                 {.model = model_of<Normed>(0.3), .workers = workers, .seed = seed});
  };
  const Checkpoint one = run("a", 1), same = run("b", 1), other = run("c", 2);
  expect_same_bits(one, same);
  EXPECT_FALSE(one.tensors.at("net/head/weight").equal(other.tensors.at("net/head/weight")));
}

TEST(TorchModuleLawTest, TheSameSeedGivesTheSameBits) { expect_same_bits_of_a_seed(1); }

// With dropout and statistics; stopped where a checkpoint was due anyway (10), and where not (7).
void expect_exact_resume(int workers) {
  TempDirectory directory;
  const auto run = [&](const std::string& name, int64_t end) {
    return train(directory / name,
                 {.model = model_of<Normed>(0.3),
                  .workers = workers,
                  .max_steps = end,
                  .input = [] { return dataset(50).shuffle(50).repeat().global_batch(14); },
                  .params = {{"adam", true}}});
  };
  const Checkpoint whole = run("whole", 23);
  for (int64_t stop : {7, 10}) {
    const std::string name = fmt::format("stop{}", stop);
    run(name, stop);
    expect_same_bits(run(name, 23), whole);
  }
}

TEST(TorchModuleLawTest, ResumeIsBitForBit) { expect_exact_resume(1); }

// --- several replicas --------------------------------------------------------------------------

TEST(TorchModuleReplicasTest, ReplicasComputeWhatOneComputes) {
  TempDirectory directory;
  const Checkpoint one = train(directory / "1", {.model = model_of<Plain>()});
  const Checkpoint two = train(directory / "2", {.model = model_of<Plain>(), .workers = 2});
  EXPECT_EQ(names_of(one), names_of(two));
  for (const auto& [name, tensor] : one.tensors)
    expect_close(tensor, two.tensors.at(name), 1e-5, name);
}

TEST(TorchModuleReplicasTest, TheSameSeedGivesTheSameBits) { expect_same_bits_of_a_seed(2); }

TEST(TorchModuleReplicasTest, ResumeIsBitForBit) { expect_exact_resume(2); }

const char* const kMean = "net/body/1/running_mean";
const char* const kTracked = "net/body/1/num_batches_tracked";

TEST(TorchModuleReplicasTest, KeepInStepAndACheckpointHoldsTheMeanOfTheirStatistics) {
  TempDirectory directory;
  std::mutex mutex;
  std::map<int64_t, Tensor> weights, means;  // by replica, at the last step
  class Look : public Hook {
   public:
    explicit Look(std::function<void()> look) : look_(std::move(look)) {}
    void end(int64_t) override { look_(); }

   private:
    std::function<void()> look_;
  };
  const LocalCluster cluster(2);
  run_ranks(2, [&](int rank) {
    std::shared_ptr<Normed> mine;
    const ModelFn model = [&](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
      auto net = torch_module<Normed>(context, "net");
      mine = net.get();
      return spec_of(net->forward(features["x"]), labels, mode, context);
    };
    Estimator estimator(model, config_of(directory / "m", cluster.environment(rank)));
    const auto look = std::make_shared<Look>([&] {
      const std::lock_guard lock(mutex);
      weights[rank] = mine->head->weight.detach().clone();
      means[rank] = mine->named_buffers()["body.1.running_mean"].clone();
    });
    estimator.train([] { return dataset(60).shuffle(60).repeat().global_batch(12); },
                    {.max_steps = 20, .hooks = {look}});
  });
  EXPECT_TRUE(weights[0].equal(weights[1]));
  EXPECT_FALSE(means[0].equal(means[1]));
  const Checkpoint saved = CheckpointManager(directory / "m").load_latest()->checkpoint;
  EXPECT_TRUE(saved.tensors.at(kMean).equal((means[0] + means[1]) / 2));
  const Tensor both = saved.tensors.at(std::string(kMean) + "/replicas");
  EXPECT_TRUE(both.equal(torch::stack({means[0], means[1]})));
  EXPECT_EQ(saved.tensors.at(kTracked).item<int64_t>(), 20);
}

// One worker continues from the mean, two more from its result; and the model is still good.
TEST(TorchModuleReplicasTest, AnotherNumberOfWorkersContinues) {
  TempDirectory directory;
  const auto run = [&](int workers, int64_t end) {
    return train(directory / "m",
                 {.model = model_of<Normed>(), .workers = workers, .max_steps = end});
  };
  const Checkpoint two = run(2, 20);
  EXPECT_EQ(two.tensors.count(std::string(kMean) + "/replicas"), 1u);
  const Checkpoint one = run(1, 21);
  EXPECT_EQ(one.tensors.count(std::string(kMean) + "/replicas"), 0u);
  EXPECT_EQ(one.tensors.at(kTracked).item<int64_t>(), 21);
  // One step moves a running mean by a tenth of the way to the batch's.
  EXPECT_LT((one.tensors.at(kMean) - two.tensors.at(kMean)).abs().max().item<double>(), 0.3);
  const Checkpoint three = run(3, 25);
  EXPECT_EQ(three.tensors.at(std::string(kMean) + "/replicas").size(0), 3);
  EXPECT_EQ(three.tensors.at(kTracked).item<int64_t>(), 25);
}

// A replica whose input is used up runs on zero rows: its statistics do not count that as a batch.
TEST(TorchModuleReplicasTest, ZeroRowsLeaveStatisticsAlone) {
  TempDirectory directory;
  const InputFn input = [](const InputContext& context) {
    return (context.input_pipeline_id == 0 ? dataset(30) : dataset(30).take(6)).batch(6);
  };
  const Checkpoint saved =
      train(directory / "m", {.model = model_of<Normed>(), .workers = 2, .input = input});
  EXPECT_EQ(saved.global_step, 5);
  const Tensor tracked = saved.tensors.at(std::string(kTracked) + "/replicas");
  EXPECT_THAT(std::vector<int64_t>(tracked.data_ptr<int64_t>(), tracked.data_ptr<int64_t>() + 2),
              ElementsAre(5, 1));
  EXPECT_TRUE(saved.tensors.at(kMean).isfinite().all().item<bool>());
}

// --- evaluation, prediction, loading -------------------------------------------------------------

TEST(TorchModuleEvaluationTest, UsesTheCheckpointsValuesAndRunningStatistics) {
  TempDirectory directory;
  Estimator estimator(model_of<Normed>(0.3), config_of(directory / "m", std::nullopt));
  estimator.train([] { return dataset(60).shuffle(60).repeat().global_batch(12); },
                  {.max_steps = 20});
  const auto net = std::make_shared<Normed>(0.3);
  {
    torch::NoGradGuard no_grad;
    for (const auto& tensors : {net->named_parameters(), net->named_buffers()}) {
      for (const auto& item : tensors) {
        const std::string name = muster_name(item.key());
        item.value().copy_(estimator.get_variable_value(name));
      }
    }
  }
  net->eval();
  const Rows all = rows(30);
  const Tensor logits = net->forward(all.x);
  const double loss = torch::nn::functional::cross_entropy(logits, all.label).item<double>();
  const auto whole = [] { return dataset(30).batch(30); };
  EXPECT_NEAR(estimator.evaluate(whole).at("loss"), loss, 1e-6);
  EXPECT_NEAR(estimator.evaluate(whole).at("loss"), loss, 1e-6);
  Predictions predictions = estimator.predict(whole, {.yield_single_examples = false});
  std::optional<Prediction> batch;
  ASSERT_TRUE(batch = predictions.next());
  expect_close(batch->at("logits"), logits.detach(), 1e-6, "logits");
}

TEST(TorchModuleEvaluationTest, ExistingWeightsAreLoadedWhereTheModuleIsMade) {
  TempDirectory directory;
  const std::string file = directory / "weights.pt";
  const auto before = std::make_shared<Normed>();
  {
    torch::NoGradGuard no_grad;
    before->head->weight.fill_(0.5);
    before->named_buffers()["body.1.running_mean"].fill_(2);
  }
  torch::save(before, file);
  const ModelFn loading = [&](const Features& features, const Labels& labels, Mode mode,
                              ModelContext& context) {
    auto net = torch_module(context, "net", [&] {
      auto made = std::make_shared<Normed>();
      torch::load(made, file);
      return made;
    });
    return spec_of(net->forward(features["x"]), labels, mode, context);
  };
  Estimator estimator(loading, config_of(directory / "m", std::nullopt));
  estimator.train([] { return dataset(24).repeat().global_batch(12); }, {.max_steps = 1});
  const CheckpointManager checkpoints(directory / "m");
  const Checkpoint start = checkpoints.load(directory / "m/model.ckpt-0");
  EXPECT_TRUE(start.tensors.at("net/head/weight").equal(before->head->weight));
  EXPECT_TRUE(start.tensors.at(kMean).equal(torch::full({kHidden}, 2.0f)));
  EXPECT_FALSE(
      checkpoints.load_latest()->checkpoint.tensors.at(kMean).equal(torch::full({kHidden}, 2.0f)));
}

// The module is made on the CPU, and moves.
TEST(TorchModuleLawTest, DevicesTrainWhatTheCpuTrains) {
  const auto trained = [](const distribute::StrategyPtr& strategy) {
    TempDirectory directory;
    RunConfig config = config_of(directory / "m", std::nullopt, 5);
    config.train_distribute = strategy;
    const ModelFn model = model_of<Normed>(0.3);
    Estimator(
        [&](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
          const auto net = torch_module<Normed>(context, "net", 0.3);
          EXPECT_EQ(net.get()->head->weight.device(), context.device());
          return model(features, labels, mode, context);
        },
        config)
        .train([] { return dataset(60).shuffle(60).repeat(2).global_batch(12); });
    return CheckpointManager(directory / "m").load_latest()->checkpoint.tensors;
  };
  const auto expect_close = [&](const distribute::StrategyPtr& there,
                                const distribute::StrategyPtr& here) {
    const auto expected = trained(here);
    for (const auto& [name, tensor] : trained(there)) {
      EXPECT_TRUE(tensor.to(kFloat64).allclose(expected.at(name).to(kFloat64), 1e-4, 1e-5)) << name;
    }
  };
  const std::string first = testing::test_device(0).str(), second = testing::test_device(1).str();
  expect_close(distribute::one_device(second), distribute::one_device());
  expect_close(distribute::mirrored({.devices = {first, second}}),
               distribute::mirrored({.replicas = 2}));
}

}  // namespace
}  // namespace muster::torch_nets
