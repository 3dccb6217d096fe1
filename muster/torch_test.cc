// LibTorch's own modules under an Estimator. What they compute is compared with a bare loop of
// LibTorch, which knows nothing of Muster.
#include "muster/torch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/muster.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_ranks.h"

namespace muster::inline v0_1 {
namespace {

using distribute::VariableTable;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::run_ranks;

constexpr int64_t kFeatures = 6, kHidden = 8, kClasses = 3;

// --- models, written as LibTorch's users write them ----------------------------------------------

struct Plain : torch::nn::Module {
  Plain() {
    fc1 = register_module("fc1", torch::nn::Linear(kFeatures, kHidden));
    fc2 = register_module("fc2", torch::nn::Linear(kHidden, kClasses));
  }
  Tensor forward(const Tensor& x) { return fc2(torch::relu(fc1(x))); }
  torch::nn::Linear fc1{nullptr}, fc2{nullptr};
};

struct Normed : torch::nn::Module {
  explicit Normed(double rate = 0)
      : body(torch::nn::Linear(kFeatures, kHidden), torch::nn::BatchNorm1d(kHidden),
             torch::nn::Functional(torch::relu), torch::nn::Dropout(rate)) {
    register_module("body", body);
    head = register_module("head", torch::nn::Linear(kHidden, kClasses));
  }
  Tensor forward(const Tensor& x) { return head(body->forward(x)); }
  torch::nn::Sequential body;
  torch::nn::Linear head{nullptr};
};

// --- data and model functions --------------------------------------------------------------------

struct Rows {
  Tensor x, label;
};

Rows rows(int64_t count) {
  Random random(derive_key(3, {id_of("rows")}));
  Tensor x = torch::empty({count, kFeatures});
  float* numbers = x.data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i) numbers[i] = static_cast<float>(random.normal());
  return {x, x.slice(1, 0, kClasses).argmax(-1)};
}

Dataset dataset(int64_t count) {
  const Rows all = rows(count);
  return Dataset::from_tensor_slices(Element::tuple({Element::dict({{"x", all.x}}), all.label}));
}

EstimatorSpec spec_of(const Tensor& logits, const Labels& labels, Mode mode,
                      ModelContext& context) {
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"logits", logits}});
  Tensor loss = losses::sparse_categorical_crossentropy(labels, logits, {.from_logits = true});
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  const optim::Optimizer optimizer = context.params().value("adam", false)
                                         ? optim::adam({.learning_rate = 0.01})
                                         : optim::sgd({.learning_rate = 0.1});
  return EstimatorSpec::train(loss, context.optimizer(optimizer).minimize(loss));
}

// The model function of a net that `torch_module` gives.
template <typename Net, typename... Args>
ModelFn model_of(Args... args) {
  return
      [args...](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        auto net = torch_module<Net>(context, "net", args...);
        return spec_of(net->forward(features["x"]), labels, mode, context);
      };
}

RunConfig config_of(const std::string& model_dir, std::optional<Environment> environment,
                    uint64_t seed = 0) {
  return {.model_dir = model_dir,
          .random_seed = seed,
          .save_checkpoints_steps = 10,
          .log_step_count_steps = 1000,
          .train_distribute = distribute::multi_worker_mirrored(),
          .session_creation_timeout_secs = 60,
          .progress_line = false,
          .environment = environment ? *environment : Environment()};
}

struct Training {
  ModelFn model;
  int workers = 1;
  int64_t max_steps = 20;
  InputFn input = [] { return dataset(60).shuffle(60).repeat().global_batch(12); };
  json params = json::object();
  uint64_t seed = 0;
};

Checkpoint train(const std::string& model_dir, const Training& training) {
  const auto work = [&](std::optional<Environment> environment) {
    Estimator(training.model, config_of(model_dir, std::move(environment), training.seed),
              training.params)
        .train(training.input, {.max_steps = training.max_steps});
  };
  if (training.workers == 1) {
    work(std::nullopt);
  } else {
    const LocalCluster cluster(training.workers);
    run_ranks(training.workers, [&](int rank) { work(cluster.environment(rank)); });
  }
  return CheckpointManager(model_dir).load_latest()->checkpoint;
}

void expect_same_bits(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors)
    EXPECT_TRUE(tensor.equal(b.tensors.at(name))) << name;
}

void expect_close(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  EXPECT_TRUE(torch::allclose(a, b, tolerance, tolerance)) << what << "\n" << a << "\n" << b;
}

std::vector<std::string> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors) names.push_back(name);
  return names;
}

// A context by itself, for what needs no run.
struct Alone {
  explicit Alone(Mode mode = Mode::kTrain, uint64_t seed = 1)
      : variables(seed), context(mode, variables, seed, params) {
    context.begin_step(0, 0);
  }
  json params = json::object();
  VariableTable variables;
  ModelContext context;
};

template <typename Fn>
std::string refusal(Fn fn) {
  const Error error = error_of(fn);
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
  return error.message();
}

// --- variables -----------------------------------------------------------------------------------

TEST(TorchModuleTest, ParametersAndBuffersAreVariablesAndTheSameTensors) {
  Alone alone;
  auto net = torch_module<Normed>(alone.context, "net", 0.5);
  EXPECT_THAT(alone.variables.signature(),
              ElementsAre("net/body/0/weight float32[8, 6]", "net/body/0/bias float32[8]",
                          "net/body/1/weight float32[8]", "net/body/1/bias float32[8]",
                          "net/head/weight float32[3, 8]", "net/head/bias float32[3]",
                          "net/body/1/running_mean float32[8]", "net/body/1/running_var float32[8]",
                          "net/body/1/num_batches_tracked int64[]"));
  EXPECT_TRUE(alone.variables.find("net/head/bias")->value().is_same(net.get()->head->bias));
  EXPECT_TRUE(alone.variables.find("net/head/bias")->spec().trainable);
  EXPECT_EQ(alone.variables.on_read().size(), 3u);
  EXPECT_EQ(torch_module<Normed>(alone.context, "net", 0.5).get(), net.get());

  // The move into flat memory is seen by the module.
  alone.variables.seal();
  const distribute::FlatParameters flat(
      alone.variables, optim::sgd().minimize(torch::zeros({})),
      [](int64_t bytes) { return torch::zeros({bytes}, torch::kUInt8); });
  torch::NoGradGuard no_grad;
  flat.buffers()[0].weights.fill_(0.25);
  EXPECT_TRUE(net.get()->head->bias.equal(torch::full({kClasses}, 0.25)));
  EXPECT_TRUE(net.get()->head->bias.is_leaf() && net.get()->head->bias.requires_grad());
}

TEST(TorchModuleTest, AParameterWithoutGradientDoesNotTrain) {
  const ModelFn frozen = [](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    auto net = torch_module(context, "net", [] {
      auto plain = std::make_shared<Plain>();
      plain->fc1->weight.set_requires_grad(false);
      return plain;
    });
    return spec_of(net->forward(features["x"]), labels, mode, context);
  };
  TempDirectory directory;
  const Checkpoint first = train(directory / "m", {.model = frozen, .max_steps = 1});
  const Checkpoint last = train(directory / "m", {.model = frozen, .max_steps = 20});
  EXPECT_TRUE(first.tensors.at("net/fc1/weight").equal(last.tensors.at("net/fc1/weight")));
  EXPECT_FALSE(first.tensors.at("net/fc1/bias").equal(last.tensors.at("net/fc1/bias")));
}

struct Tied : torch::nn::Module {
  Tied() {
    in = register_module("in", torch::nn::Linear(kFeatures, kFeatures));
    again = register_module("again", in);
    shared = register_parameter("shared", in->weight);
  }
  Tensor forward(const Tensor& x) {
    return torch::linear(torch::relu(again(x)), shared).slice(1, 0, kClasses);
  }
  torch::nn::Linear in{nullptr}, again{nullptr};
  Tensor shared;
};

TEST(TorchModuleTest, TiedWeightsAreOneVariable) {
  TempDirectory directory;
  const Checkpoint trained = train(directory / "m", {.model = model_of<Tied>()});
  // One of the three names of the weight, one of the two of the bias.
  EXPECT_THAT(names_of(trained), ElementsAre("SGD/iterations", "net/in/bias", "net/shared"));
}

TEST(TorchModuleTest, AModuleMayHoldNothingOrBeOfAnyKind) {
  Alone alone;
  auto relu = torch_module<torch::nn::ReLU>(alone.context, "relu");
  EXPECT_TRUE(relu(torch::tensor({-1.0f, 2.0f})).equal(torch::tensor({0.0f, 2.0f})));
  EXPECT_TRUE(alone.variables.variables().empty());
  auto chain = torch_module(alone.context, "chain", [] {
    torch::nn::ModuleList list;
    list->push_back(torch::nn::Linear(2, 2));
    torch::nn::AnyModule any{torch::nn::Linear(2, 1)};
    return torch::nn::Sequential(list->ptr<torch::nn::LinearImpl>(0),
                                 any.ptr<torch::nn::LinearImpl>());
  });
  EXPECT_EQ(chain(torch::ones({4, 2})).size(-1), 1);
  auto linear = torch_module<torch::nn::Linear>(alone.context, "linear",
                                                torch::nn::LinearOptions(2, 3).bias(false));
  EXPECT_EQ(linear(torch::ones({4, 2})).size(-1), 3);
  EXPECT_THAT(alone.variables.signature(),
              ElementsAre("chain/0/weight float32[2, 2]", "chain/0/bias float32[2]",
                          "chain/1/weight float32[1, 2]", "chain/1/bias float32[1]",
                          "linear/weight float32[3, 2]"));
}

TEST(TorchModuleTest, StridedParametersBecomeContiguous) {
  struct Strided : torch::nn::Module {
    Strided() { w = register_parameter("w", torch::arange(6.0).view({2, 3}).t()); }
    Tensor w;
  };
  Alone alone;
  auto net = torch_module<Strided>(alone.context, "net");
  EXPECT_TRUE(net.get()->w.is_contiguous());
  EXPECT_TRUE(net.get()->w.equal(torch::arange(6.0).view({2, 3}).t()));
}

// --- what is refused -----------------------------------------------------------------------------

struct Lazy : torch::nn::Module {
  Tensor forward(const Tensor& x) {
    if (!fc) fc = register_module("fc", torch::nn::Linear(x.size(1), kClasses));
    return fc(x);
  }
  torch::nn::Linear fc{nullptr};
};

TEST(TorchModuleTest, ASubmoduleMadeInForwardIsNamed) {
  Alone alone;
  torch_module<Lazy>(alone.context, "net")->forward(torch::ones({2, 4}));
  EXPECT_THAT(refusal([&] { torch_module<Lazy>(alone.context, "net"); }),
              HasSubstr("net/fc/weight was registered after its first use"));
}

TEST(TorchModuleTest, AModuleThatChangesItsTensorsIsNamed) {
  const auto after = [](const std::function<void(Plain&)>& change) {
    Alone alone;
    change(*torch_module<Plain>(alone.context, "net").get());
    return refusal([&] { torch_module<Plain>(alone.context, "net"); });
  };
  EXPECT_THAT(after([](Plain& net) { net.to(torch::kFloat64); }),
              HasSubstr("net/fc1/weight was converted to float64[8, 6] after its first use"));
  EXPECT_THAT(after([](Plain& net) { net.fc2->reset(); }),
              HasSubstr("net/fc2/weight was replaced"));
  EXPECT_THAT(after([](Plain& net) { net.unregister_module("fc2"); }),
              HasSubstr("net/fc2/weight was removed"));
}

TEST(TorchModuleTest, SaysWhatDoesNotFit) {
  struct Holds : torch::nn::Module {
    explicit Holds(Tensor w) { register_parameter("w", w, w.is_floating_point()); }
  };
  Alone alone;
  const auto adopt = [&](const Tensor& w) {
    return refusal([&] { torch_module<Holds>(alone.context, "holds", w); });
  };
  EXPECT_THAT(adopt(torch::zeros({2}, torch::kComplexFloat)),
              HasSubstr("not supported: the parameter holds/w is ComplexFloat[2] on cpu"));
  EXPECT_THAT(adopt(torch::zeros({2, 2}).to_sparse()), HasSubstr("Sparse"));
  EXPECT_THAT(adopt(torch::zeros({2}, torch::kMeta)), HasSubstr("on meta"));

  torch_module<Plain>(alone.context, "net");
  EXPECT_THAT(refusal([&] { torch_module<Normed>(alone.context, "net"); }),
              HasSubstr("Plain, and was asked for as a "));
  EXPECT_THAT(refusal([&] { torch_module<Plain>(alone.context, ""); }), HasSubstr("needs a name"));
  EXPECT_THAT(refusal([&] {
                torch_module(alone.context, "none", [] { return std::shared_ptr<Plain>(); });
              }),
              HasSubstr("\"none\" is null"));
  alone.context.variable(
      {.name = "other/fc1/weight",
       .shape = {1},
       .initializer = [](const Shape& shape, DType, RandomKey) { return torch::zeros(shape); }});
  EXPECT_THAT(refusal([&] { torch_module<Plain>(alone.context, "other"); }),
              HasSubstr("other/fc1/weight of a torch module has the name of a variable"));
  alone.variables.seal();
  EXPECT_THAT(refusal([&] { torch_module<Plain>(alone.context, "late"); }),
              HasSubstr("after the model was built"));
}

TEST(TorchModuleTest, AModuleBelongsToOneContext) {
  const auto shared = std::make_shared<Plain>();
  {
    Alone training, evaluation(Mode::kEval);
    torch_module(training.context, "net", [&] { return shared; });
    EXPECT_THAT(refusal([&] { torch_module(evaluation.context, "net", [&] { return shared; }); }),
                HasSubstr("net/fc1/weight is in use already, as the variable net/fc1/weight"));
    EXPECT_THAT(
        refusal([&] { torch_module(training.context, "head", [&] { return shared->fc2; }); }),
        HasSubstr("head/weight is in use already, as the variable net/fc2/weight"));
  }
  Alone later;
  torch_module(later.context, "net", [&] { return shared; });
}

TEST(TorchModuleTest, TrainsFloat32AndFloat64Only) {
  const ModelFn half = [](const Features& features, const Labels& labels, Mode mode,
                          ModelContext& context) {
    auto net = torch_module(context, "net", [] {
      auto plain = std::make_shared<Plain>();
      plain->to(torch::kBFloat16);
      return plain;
    });
    const Tensor logits = net->forward(features["x"].to(torch::kBFloat16));
    return spec_of(logits.to(kFloat32), labels, mode, context);
  };
  TempDirectory directory;
  EXPECT_THAT(refusal([&] { train(directory / "m", {.model = half}); }),
              HasSubstr("not supported: training the variable net/fc1/weight bfloat16[8, 6]"));
}

// --- random numbers and mode ---------------------------------------------------------------------

TEST(TorchModuleTest, InitialValuesDependOnSeedAndNameOnly) {
  const auto weight = [](uint64_t seed, const char* name, int drawn_before) {
    for (int i = 0; i < drawn_before; ++i) torch::rand({3});
    Alone alone(Mode::kTrain, seed);
    return torch_module<Plain>(alone.context, name).get()->fc1->weight.detach().clone();
  };
  EXPECT_TRUE(weight(1, "a", 0).equal(weight(1, "a", 5)));
  EXPECT_FALSE(weight(1, "a", 0).equal(weight(2, "a", 0)));
  EXPECT_FALSE(weight(1, "a", 0).equal(weight(1, "b", 0)));
}

TEST(TorchModuleTest, WhatAModuleDrawsDependsOnStepReplicaAndCall) {
  const auto draw = [](int64_t step, int64_t replica, int calls) {
    Alone alone;
    alone.context.begin_step(step, replica);
    auto net = torch_module<torch::nn::Dropout>(alone.context, "net");
    Tensor last;
    for (int call = 0; call < calls; ++call) last = net(torch::ones({64}));
    return last;
  };
  EXPECT_TRUE(draw(3, 1, 1).equal(draw(3, 1, 1)));
  EXPECT_FALSE(draw(3, 1, 1).equal(draw(4, 1, 1)));
  EXPECT_FALSE(draw(3, 1, 1).equal(draw(3, 0, 1)));
  EXPECT_FALSE(draw(3, 1, 1).equal(draw(3, 1, 2)));
}

TEST(TorchModuleTest, TheDefaultGeneratorGoesOnWhereItWas) {
  torch::manual_seed(5);
  const Tensor expected = torch::rand({4});
  torch::manual_seed(5);
  Alone alone;
  auto a = torch_module<Normed>(alone.context, "a", 0.5);
  auto b = torch_module<torch::nn::Dropout>(alone.context, "b");
  b(a(b(torch::ones({4, kFeatures}))));
  EXPECT_THROW(a->forward(torch::ones({4, 1})), c10::Error);
  EXPECT_TRUE(torch::rand({4}).equal(expected));
}

TEST(TorchModuleTest, TheContextsModeIsSetAtEveryCall) {
  Alone training, evaluation(Mode::kEval);
  const Tensor x = torch::ones({64, kFeatures});
  auto net = torch_module<Normed>(evaluation.context, "net", 0.5);
  EXPECT_FALSE(net.get()->body->is_training());
  EXPECT_TRUE(net(x).equal(net(x)));
  auto trained = torch_module<Normed>(training.context, "net", 0.5);
  EXPECT_TRUE(trained.get()->body->is_training());
  trained.get()->eval();
  EXPECT_FALSE(trained.get()->body->is_training());
  torch_module<Normed>(training.context, "net", 0.5);
  EXPECT_TRUE(trained.get()->body->is_training());
}

// --- laws of training ----------------------------------------------------------------------------

// What a LibTorch user writes by hand.
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
      const std::string name = "net/" + std::regex_replace(item.key(), std::regex("\\."), "/");
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
      return Sequential({Dense(kHidden, {.activation = relu,
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

// One worker continues from the mean, two more from what it leaves; and the model is still good.
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

// A replica whose input is used up runs on zero rows: that is no batch to its statistics.
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
        const std::string name = "net/" + std::regex_replace(item.key(), std::regex("\\."), "/");
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
  Prediction batch;
  ASSERT_TRUE(predictions.next(&batch));
  expect_close(batch.at("logits"), logits.detach(), 1e-6, "logits");
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

}  // namespace
}  // namespace muster::inline v0_1
