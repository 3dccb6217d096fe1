// Modules of LibTorch in a model context: their tensors, their random numbers, and refused modules.
#include <gmock/gmock.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/flat_parameters.h"
#include "tests/torch_module/nets.h"

namespace muster::torch_nets {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

// --- refused modules -----------------------------------------------------------------------------

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
  EXPECT_THAT(
      after([](Plain& net) { net.replace_module("fc2", torch::nn::Linear(kHidden, kClasses)); }),
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

struct Tables : torch::nn::Module {
  Tables(bool table_is_sparse, bool bag_is_sparse)
      : table(register_module(
            "table",
            torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(table_is_sparse)))),
        bag(register_module(
            "bag",
            torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(6, 2).sparse(bag_is_sparse)))) {}
  torch::nn::Embedding table;
  torch::nn::EmbeddingBag bag;
};

TEST(TorchModuleTest, SparseTablesAreRefusedWhereTheyAreMade) {
  Alone alone;
  torch_module<Tables>(alone.context, "dense", false, false);
  const Error table = error_of([&] { torch_module<Tables>(alone.context, "net", true, false); });
  EXPECT_EQ(table.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(table.message(),
              HasSubstr("the table net/table of a torch module was made with sparse(true)"));
  EXPECT_THAT(table.hint(), HasSubstr("context.model(\"table\", [] { return Embedding(10, 4); })"));
  EXPECT_THAT(refusal([&] { torch_module<Tables>(alone.context, "other", false, true); }),
              HasSubstr("the table other/bag"));
}

TEST(TorchModuleTest, AGradientThatIsNotDenseIsNamed) {
  const ModelFn sparse = [](const Features& features, const Labels& labels, Mode mode,
                            ModelContext& context) {
    auto net = torch_module<Plain>(context, "net");
    const Tensor& x = features["x"];
    const Tensor ids = torch::zeros({x.size(0)}, torch::kInt64);
    const Tensor rows = torch::embedding(net.get()->fc1->weight, ids, -1, false, /*sparse=*/true);
    return spec_of(rows.narrow(1, 0, kClasses), labels, mode, context);
  };
  for (const int workers : {1, 2}) {
    TempDirectory directory;
    const Error error = error_of(
        [&] { train(directory / "m", {.model = sparse, .workers = workers, .max_steps = 1}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.message(),
                HasSubstr("the gradient of the variable net/fc1/weight is Sparse"));
  }
}

TEST(TorchModuleTest, ABackwardOfAModelFunctionsOwnSaysWhoMakesTheSteps) {
  const ModelFn own = [](const Features& features, const Labels& labels, Mode mode,
                         ModelContext& context) {
    auto net = torch_module<Plain>(context, "net");
    EstimatorSpec spec = spec_of(net->forward(features["x"]), labels, mode, context);
    spec.loss.backward();
    return spec;
  };
  TempDirectory directory;
  const Error error = error_of([&] { train(directory / "m", {.model = own, .max_steps = 1}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
  EXPECT_THAT(error.hint(), HasSubstr("call minimize(loss)"));
}

TEST(TorchModuleTest, BatchNormOfOneRowSaysWhatToDo) {
  const TempDirectory directory;
  const Error error = error_of([&] {
    train(directory.path(),
          {.model = model_of<Normed>(), .input = [] { return dataset(5).repeat().batch(1); }});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("Expected more than 1 value per channel"));
  EXPECT_THAT(error.hint(), AllOf(HasSubstr("use a larger batch"), HasSubstr("drop_remainder")));
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

TEST(TorchModuleTest, DrawsOfAModuleDependOnStepReplicaAndCall) {
  const auto draw = [](int64_t step, int64_t replica, int calls) {
    Alone alone;
    internal::begin_step(alone.context, step, replica);
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

// --- exporting -----------------------------------------------------------------------------------

// `answer` makes the logits of features "x"; a step of training gives a checkpoint to export.
template <typename Answer>
std::unique_ptr<Estimator> trained(const TempDirectory& directory, Answer answer) {
  auto estimator = std::make_unique<Estimator>(
      [answer](const Features& features, const Labels& labels, Mode mode, ModelContext& context) {
        return spec_of(answer(features["x"], context), labels, mode, context);
      },
      config_of(directory / "model", std::nullopt));
  estimator->train(Training().input, {.max_steps = 1});
  return estimator;
}

const ServingInputReceiver& six_features() {
  static const auto receiver = raw_serving_input_receiver({{"x", {kFloat32, {kFeatures}}}});
  return receiver;
}

TEST(TorchModuleTest, AModuleIsExportedHoweverItIsCalled) {
  const TempDirectory directory;
  int way = 0;
  const auto estimator = trained(directory, [&way](const Tensor& x, ModelContext& context) {
    auto net = torch_module<Normed>(context, "net", 0.5);
    return way == 0 ? net->forward(x) : way == 1 ? net(x) : net.get()->forward(x);
  });
  const Tensor x = rows(4).x;
  std::vector<Tensor> answers;
  for (; way < 3; ++way) {
    const Servable model(*estimator->export_model(directory / "export", six_features()));
    answers.push_back(model.run("serving_default", {{"x", x}}).at("logits"));
  }
  EXPECT_TRUE(answers[0].equal(answers[1]) && answers[0].equal(answers[2]));
}

// Both directions of an LSTM over any number of steps, and a convolution over them.
struct StepsNet : torch::nn::Module {
  StepsNet() {
    lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(kFeatures, 5)
                                                       .num_layers(2)
                                                       .batch_first(true)
                                                       .bidirectional(true)));
    conv =
        register_module("conv", torch::nn::Conv1d(torch::nn::Conv1dOptions(10, 4, 3).padding(1)));
    head = register_module("head", torch::nn::Linear(4, kClasses));
  }
  Tensor forward(const Tensor& x) {
    const Tensor steps = std::get<0>(lstm->forward(x.unflatten(-1, {-1, kFeatures})));
    return head->forward(conv->forward(steps.transpose(1, 2)).relu().mean(2));
  }
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Conv1d conv{nullptr};
  torch::nn::Linear head{nullptr};
};

TEST(TorchModuleTest, AModuleIsExportedForEveryLength) {
  const TempDirectory directory;
  const auto estimator = trained(directory, [](const Tensor& x, ModelContext& context) {
    return torch_module<StepsNet>(context, "net")->forward(x.flatten(1));
  });
  const std::string path = *estimator->export_model(
      directory / "export", raw_serving_input_receiver({{"x", {kFloat32, {-1, kFeatures}}}}));
  const Servable model(path);
  const Predictor live(*estimator), exported(path);
  for (const int64_t length : {1, 2, 7, 50}) {
    for (const int64_t rows : {1, 3, 8}) {
      const Tensor x = torch::rand({rows, length, kFeatures});
      EXPECT_TRUE(model.run("serving_default", {{"x", x}})
                      .at("logits")
                      .allclose(live.predict_batch({{"x", x}}).at("logits"), 1e-4, 1e-5))
          << length << " steps";
    }
    const Tensor one = torch::rand({length, kFeatures});
    EXPECT_TRUE(exported.predict({{"x", one}})
                    .at("logits")
                    .allclose(live.predict({{"x", one}}).at("logits"), 1e-4, 1e-5));
  }
}

TEST(TorchModuleTest, OperationsThatDrawInPredictionAreNamed) {
  struct Noisy : torch::nn::Module {
    Tensor forward(const Tensor& x) { return x + torch::rand_like(x); }
  };
  const auto said = [](const auto& answer) {
    const TempDirectory directory;
    const auto estimator = trained(directory, answer);
    return refusal([&] { (void)estimator->export_model(directory / "export", six_features()); });
  };
  EXPECT_THAT(said([](const Tensor& x, ModelContext& context) {
                auto noise = torch_module<Noisy>(context, "noise");
                return torch_module<Plain>(context, "net")->forward(noise->forward(x));
              }),
              HasSubstr("exporting aten::rand_like: it draws random numbers"));
  // Dropout that stays in training, as Monte Carlo estimates have it.
  EXPECT_THAT(said([](const Tensor& x, ModelContext& context) {
                auto net = torch_module<Normed>(context, "net", 0.5);
                net.get()->body[3]->as<torch::nn::Dropout>()->train();
                return net->forward(x);
              }),
              HasSubstr("exporting aten::dropout: it draws random numbers"));
}

TEST(TorchModuleTest, TheDefaultGeneratorContinuesWhereItWas) {
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

}  // namespace
}  // namespace muster::torch_nets
