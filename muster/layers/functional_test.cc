#include "muster/layers/functional.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include "muster/layers/batch_normalization.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/lambda.h"
#include "muster/layers/merge.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

Tensor single(at::IntArrayRef shape, double phase = 0.3) {
  return numbers(shape, phase).to(kFloat32);
}

// A model of an image and facts about it: two inputs, two outputs.
Functional pet_model() {
  const SymbolicTensor image = Input({28, 28, 1}, {.name = "image"});
  const SymbolicTensor facts = Input({3}, {.name = "facts"});
  const SymbolicTensor seen = Flatten()(MaxPooling2D()(Conv2D(8, 3)(image)));
  const SymbolicTensor known = Dense(16, {.activation = activations::relu})(facts);
  const SymbolicTensor both = Concatenate()({seen, known});
  const SymbolicTensor kind = Dense(5, {.name = "kind"})(both);
  const SymbolicTensor weight = Dense(1, {.name = "weight"})(both);
  return Functional({image, facts}, {kind, weight});
}

TEST(Functional, HasTheNamesValuesAndBitsOfASequential) {
  const auto layers = [] {
    return std::vector{Conv2D(16, 3, {.activation = activations::relu}),
                       MaxPooling2D(),
                       Conv2D(4, 3, {.padding = Padding::kSame, .activation = activations::relu}),
                       BatchNormalization(),
                       Flatten(),
                       Dropout(0.4),
                       Dense(7, {.name = "head"}),
                       Dense(3)};
  };
  const SymbolicTensor input = Input({12, 10, 2});
  SymbolicTensor x = input;
  for (const Layer& layer : layers()) x = layer(x);
  const Layer models[] = {Sequential(layers()), Functional({input}, {x})};
  Fixture fixtures[2];
  Tensor outputs[2];
  for (const int m : {0, 1}) {
    for (int64_t step = 0; step < 2; ++step) {
      fixtures[m].context.begin_step(true, step, 0);
      outputs[m] = models[m](single({6, 12, 10, 2}), fixtures[m].context);
      outputs[m].square().sum().backward();
    }
  }
  EXPECT_TRUE(torch::equal(outputs[0], outputs[1]));
  EXPECT_NE(outputs[1].grad_fn(), nullptr);
  ASSERT_EQ(fixtures[0].store.names(), fixtures[1].store.names());
  for (const std::string& name : fixtures[0].store.names()) {
    const Tensor &one = fixtures[0].store.value(name), &other = fixtures[1].store.value(name);
    EXPECT_TRUE(torch::equal(one, other)) << name;
    if (!one.requires_grad()) continue;
    EXPECT_TRUE(torch::equal(one.grad(), other.grad())) << name;
  }
}

// The convolution and the pooling after it run as one also where others are called in between,
// unless somebody else needs what lies between them.
TEST(Functional, RunsPairsOfLayersAsOneWhereItMay) {
  const auto conv = Conv2D(16, 3, {.activation = activations::relu}), pool = MaxPooling2D();
  const SymbolicTensor image = Input({9, 12, 1}), between = conv(image);
  const SymbolicTensor mean = GlobalAveragePooling2D()(image);
  const SymbolicTensor pooled = pool(between);
  const auto runs_as_one = [](const Functional& model) {
    Fixture fixture;
    const LayerOutputs out = model({.tensors = {single({2, 9, 12, 1})}}, fixture.context);
    return out.tensors[0].grad_fn()->name().find("ConvReluPool") != std::string::npos;
  };
  EXPECT_TRUE(runs_as_one(Functional({image}, {pooled, mean})));
  EXPECT_FALSE(runs_as_one(Functional({image}, {pooled, between})));
  EXPECT_FALSE(runs_as_one(Functional({image}, {pooled, Flatten()(between)})));
}

TEST(Functional, TakesAndGivesSeveralTensors) {
  const Functional model = pet_model();
  Fixture fixture;
  const Tensor images = single({4, 28, 28, 1}), facts = single({4, 3});
  const LayerOutputs out = model({.tensors = {images, facts}}, fixture.context);
  ASSERT_EQ(out.tensors.size(), 2u);
  EXPECT_TRUE(out.masks.empty());
  const auto& store = fixture.store;
  const Tensor seen =
      torch::max_pool2d(torch::conv2d(images.permute({0, 3, 1, 2}),
                                      store.value("conv2d/kernel").permute({3, 2, 0, 1}),
                                      store.value("conv2d/bias")),
                        {2, 2})
          .permute({0, 2, 3, 1})
          .flatten(1);
  const Tensor known =
      torch::relu(facts.matmul(store.value("dense/kernel")) + store.value("dense/bias"));
  const Tensor both = torch::cat({seen, known}, 1);
  for (const int i : {0, 1}) {
    const std::string name = i == 0 ? "kind" : "weight";
    EXPECT_TRUE(torch::allclose(
        out.tensors[i], both.matmul(store.value(name + "/kernel")) + store.value(name + "/bias"),
        1e-5, 1e-5));
  }
  EXPECT_EQ(model.inputs().size(), 2u);
  EXPECT_EQ(describe(model.inputs()[0]), "float32[None, 28, 28, 1]");
  EXPECT_EQ(model.outputs()[1].shape(), (Shape{-1, 1}));
  EXPECT_EQ(model.layers().size(), 7u);
  int64_t elements = 0;
  for (const auto& variable : store.variables()) elements += variable->value().numel();
  EXPECT_EQ(model.count_params(), elements);
}

TEST(Functional, SharesTheWeightsOfALayerThatIsCalledTwice) {
  const SymbolicTensor left = Input({4}, {.dtype = kFloat64});
  const SymbolicTensor right = Input({4}, {.dtype = kFloat64});
  const Layer tower = Dense(3);
  const Functional model({left, right}, {Dot(1)({tower(left), tower(right)})});
  Fixture fixture;
  const Tensor a = numbers({5, 4}), b = numbers({5, 4}, 0.8);
  const Tensor y = model({.tensors = {a, b}}, fixture.context).tensors[0];
  EXPECT_EQ(fixture.store.names(), (std::vector<std::string>{"dense/kernel", "dense/bias"}));
  EXPECT_EQ(model.count_params(), 15);
  EXPECT_EQ(model.layers().size(), 2u);
  const Tensor& kernel = fixture.store.value("dense/kernel");
  EXPECT_TRUE(torch::allclose(y.squeeze(1), (a.matmul(kernel) * b.matmul(kernel)).sum(1)));
  y.sum().backward();
  const Tensor expected = a.t().matmul(b.matmul(kernel)) + b.t().matmul(a.matmul(kernel));
  EXPECT_TRUE(torch::allclose(kernel.grad(), expected));
}

TEST(Functional, IsALayerAmongOthers) {
  const SymbolicTensor x = Input({4}, {.dtype = kFloat64});
  const Functional inner({x}, {Dense(3)(Dense(3)(x))}, "inner");
  const SymbolicTensor y = Input({4}, {.dtype = kFloat64});
  const SymbolicTensor twice = Add()({inner(y), inner(Dense(4)(y))});
  const Functional model({y}, {Sequential({Dropout(0.5), Dense(2)})(twice)});
  EXPECT_EQ(describe(model.outputs()[0]), "float64[None, 2]");
  // Its own layers are named as if they stood alone, in the order they run.
  Fixture fixture;
  const Tensor z = Sequential({model, Dense(1)})(numbers({2, 4}), fixture.context);
  EXPECT_EQ(z.sizes(), (Shape{2, 1}));
  EXPECT_EQ(
      fixture.store.names(),
      (std::vector<std::string>{"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias",
                                "dense_2/kernel", "dense_2/bias", "dense_3/kernel", "dense_3/bias",
                                "dense_4/kernel", "dense_4/bias"}));
  EXPECT_EQ(fixture.store.value("dense_3/kernel").sizes(), (Shape{3, 2}));
}

class MaskZerosLayerImpl final : public LayerImpl {
 public:
  MaskZerosLayerImpl() : LayerImpl("mask_zeros", "") {}
  LayerOutputs call(const LayerInputs& inputs, CallContext&) const override {
    return {.tensors = inputs.tensors, .masks = {inputs.tensors[0].ne(0).any(-1)}};
  }
};

// Sums the steps that count, and goes on where it ended.
class SumOfStepsImpl final : public LayerImpl {
 public:
  SumOfStepsImpl() : LayerImpl("sum_of_steps", "") {}
  LayerOutputs call(const LayerInputs& inputs, CallContext&) const override {
    Tensor steps = inputs.tensors[0];
    if (!inputs.masks.empty()) steps = steps * inputs.masks[0].unsqueeze(-1);
    Tensor sum = steps.sum(1);
    if (!inputs.state.empty()) sum = sum + inputs.state[0];
    return {.tensors = {steps}, .masks = inputs.masks, .state = {sum}};
  }
};

TEST(Functional, TakesMasksFromLayerToLayerAndStateWhereItIsTold) {
  const SymbolicTensor x = Input({-1, 2}, {.dtype = kFloat64});
  const SymbolicTensor y = Input({-1, 2}, {.dtype = kFloat64});
  const Layer mask_zeros(std::make_shared<MaskZerosLayerImpl>());
  const Layer sum(std::make_shared<SumOfStepsImpl>());
  const Layer dense = Dense(2, {.kernel_initializer = initializers::identity(),
                                .bias_initializer = initializers::ones()});
  const SymbolicValues first = sum(SymbolicValues{.tensors = {dense(mask_zeros(x))}});
  ASSERT_EQ(first.state.size(), 1u);
  EXPECT_EQ(describe(first.tensors[0]), "float64[None, None, 2]");
  EXPECT_EQ(describe(first.state[0]), "float64[None, 2]");
  const SymbolicValues second = sum(SymbolicValues{.tensors = {y}, .state = first.state});
  const Functional model({x, y}, {second.state[0], first.tensors[0]});
  Fixture fixture;
  const Tensor given = torch::tensor({1.0, 2.0, 0.0, 0.0, 3.0, 0.0}, at::kDouble).view({1, 3, 2});
  const Tensor other = torch::full({1, 5, 2}, 10.0, at::kDouble);
  const LayerOutputs out = model({.tensors = {given, other}}, fixture.context);
  // The step without numbers does not count, though the bias makes it 1.
  EXPECT_TRUE(torch::equal(out.tensors[0], torch::tensor({{56.0, 54.0}}, at::kDouble)));
  ASSERT_EQ(out.masks.size(), 2u);
  EXPECT_FALSE(out.masks[0].defined());
  EXPECT_TRUE(torch::equal(out.masks[1], torch::tensor({{true, false, true}})));
  // A mask that comes with an input goes along too.
  const Tensor mask = torch::zeros({1, 5}, at::kBool);
  const LayerOutputs none =
      model({.tensors = {given, other}, .masks = {Tensor(), mask}}, fixture.context);
  EXPECT_TRUE(torch::equal(none.tensors[0], torch::tensor({{6.0, 4.0}}, at::kDouble)));
}

TEST(SymbolicTensor, KnowsShapesAndDtypes) {
  const SymbolicTensor ids = Input({-1}, {.dtype = kInt64});
  EXPECT_EQ(describe(ids), "int64[None, None]");
  const SymbolicTensor vectors = Embedding(10, 4)(ids);
  EXPECT_EQ(describe(vectors), "float32[None, None, 4]");
  EXPECT_EQ(describe(Conv1D(6, 3, {.strides = 2})(vectors)), "float32[None, None, 6]");
  EXPECT_EQ(describe(GlobalMaxPooling1D()(vectors)), "float32[None, 4]");
  EXPECT_EQ(describe(Flatten()(Input({3, 4}))), "float32[None, 12]");
  EXPECT_EQ(describe(Input({})), "float32[None]");
  EXPECT_EQ(describe(Lambda([](const Tensor& x) { return x.sum(); })(ids)), "int64[]");
  // Some functions fail without rows.
  const Layer reshape = Lambda([](const Tensor& x) { return x.reshape({x.size(0), -1}); });
  EXPECT_EQ(describe(reshape(Input({3, 4}))), "float32[None, 12]");
  EXPECT_EQ(message_of([] { Input({3, 0}); }), "Input: shape is [3, 0]");
  message_of([] { Input({3}, {.name = "a/b"}); });
}

// A graph is built without what costs most where weights are large.
TEST(SymbolicTensor, DrawsNoInitialValues) {
  const auto calls = std::make_shared<int>(0);
  const Initializer counted = [calls](const Shape& shape, DType dtype, RandomKey) {
    ++*calls;
    return torch::zeros(shape, dtype);
  };
  const SymbolicTensor x = Input({1 << 20});
  const SymbolicTensor narrow = Dense(2, {.kernel_initializer = counted})(x);
  EXPECT_EQ(describe(narrow), "float32[None, 2]");
  const Functional model({x}, {narrow});
  EXPECT_EQ(*calls, 0);
  Fixture fixture;
  model(torch::zeros({1, 1 << 20}), fixture.context);
  EXPECT_EQ(*calls, 1);
}

TEST(Functional, NamesTheLayersAndShapesThatDoNotMeet) {
  const SymbolicTensor x = Input({28}), image = Input({8, 8, 3}, {.name = "image"});
  const SymbolicTensor hidden = Dense(64)(x);
  EXPECT_EQ(message_of([&] { Conv2D(1, 3)(hidden); }),
            "layer conv2d does not take float32[None, 64] from layer dense: expected images "
            "[batch, height, width, channels], was given float32[2, 64]");
  EXPECT_EQ(message_of([&] {
              Add()({hidden, Dense(3)(hidden)});
            }),
            "layer add does not take float32[None, 64] from layer dense and float32[None, 3] from "
            "layer dense_1: expected shapes that fit, was given float32[2, 64], float32[2, 3]");
  EXPECT_EQ(message_of([&] {
              Concatenate()({x, image});
            }),
            "layer concatenate does not take float32[None, 28] from Input input_1 and "
            "float32[None, 8, 8, 3] from Input image: expected the same sizes except along axis 1, "
            "which must not be the batch, was given float32[2, 28], float32[2, 8, 8, 3]");
  EXPECT_EQ(message_of([&] { Embedding(4, 2)(x); }),
            "layer embedding does not take float32[None, 28] from Input input_1: expected int64 or "
            "int32 ids [batch, ...], was given float32[2, 28]");
  EXPECT_EQ(message_of([&] {
              Dense(1)(Input({2, -1}));
            }),
            "layer dense does not take float32[None, 2, None] from Input input_1: the shape of its "
            "variable dense/kernel depends on an axis that may have any size");
  EXPECT_EQ(message_of([&] {
              Lambda([](const Tensor& t) { return t.view({7}); })(x);
            }).find("layer lambda does not take float32[None, 28] from Input input_1: "),
            0u);
  EXPECT_EQ(message_of([&] { Dense(1)(std::vector<SymbolicTensor>{}); }),
            "a layer (dense) was called on no symbolic tensor");
  const Functional two({x}, {hidden, x});
  EXPECT_EQ(message_of([&] { two(x); }),
            "a layer (model) gives 2 tensors, where one was asked for");
  const Layer shared = Dense(5);
  const SymbolicTensor joined = Concatenate()({shared(x), shared(hidden)});
  EXPECT_EQ(message_of([&] { Functional({x}, {joined}); }),
            "Functional: layer dense_1 is called on float32[None, 28] from Input input_1 and on "
            "float32[None, 64] from layer dense; it would need two kernel: [28, 5] and [64, 5]");
}

TEST(Functional, RefusesGraphsThatDoNotHoldTogether) {
  const SymbolicTensor x = Input({4}), y = Input({4}, {.name = "y"});
  const SymbolicTensor hidden = Dense(3)(x), sum = Add()({x, y});
  const auto refused = [](std::vector<SymbolicTensor> inputs, std::vector<SymbolicTensor> outputs) {
    return message_of([&] { Functional(inputs, outputs); });
  };
  EXPECT_EQ(refused({x}, {hidden, sum}),
            "Functional: graph disconnected: the output 1 (float32[None, 4] from layer add) needs "
            "the Input y (float32[None, 4]), which is not among the inputs");
  EXPECT_EQ(refused({x, y}, {hidden}),
            "Functional: no output needs the input 1, y (float32[None, 4])");
  EXPECT_EQ(refused({x, x}, {hidden}),
            "Functional: the input 1 (float32[None, 4]) is the same as one before it");
  EXPECT_EQ(refused({hidden}, {Dense(1)(hidden)}),
            "Functional: the input 0 (float32[None, 3]) is what layer dense gives");
  EXPECT_EQ(refused({}, {hidden}), "Functional: inputs is empty");
  EXPECT_EQ(refused({x}, {}), "Functional: outputs is empty");
  const SymbolicTensor same = Dense(3, {.name = "y"})(y);
  EXPECT_EQ(refused({y}, {same}), "an Input is named \"y\", and so is another one, or a layer");
  const Layer named = Dense(4, {.name = "twin"}), twin = Dense(4, {.name = "twin"});
  EXPECT_EQ(refused({x}, {twin(named(x))}), "two layers are named \"twin\"");
}

TEST(Functional, TakesWhatItsInputsSay) {
  const Functional model = pet_model();
  Fixture fixture;
  const auto refused = [&](const LayerInputs& inputs) {
    return message_of([&] { model(inputs, fixture.context); });
  };
  const Tensor images = torch::zeros({2, 28, 28, 1}), facts = torch::zeros({2, 3});
  EXPECT_EQ(refused({.tensors = {images}}), "layer model: expected 2 tensors, was given 1");
  EXPECT_EQ(refused({.tensors = {facts, images}}),
            "layer model: expected float32[None, 28, 28, 1] for image, was given float32[2, 3]");
  EXPECT_EQ(refused({.tensors = {images, facts.to(kFloat64)}}),
            "layer model: expected float32[None, 3] for facts, was given float64[2, 3]");
  EXPECT_EQ(refused({.tensors = {images, facts}, .state = {facts}}),
            "layer model: was given a state, and has none");
}

}  // namespace
}  // namespace muster::inline v0_1
