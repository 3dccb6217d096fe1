#include "muster/layers/recompute.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "muster/layers/activation_layers.h"
#include "muster/layers/activity_regularization.h"
#include "muster/layers/batch_normalization.h"
#include "muster/layers/convolution.h"
#include "muster/layers/dense.h"
#include "muster/layers/dropout.h"
#include "muster/layers/embedding.h"
#include "muster/layers/functional.h"
#include "muster/layers/internal/test_layers.h"
#include "muster/layers/lambda.h"
#include "muster/layers/noise.h"
#include "muster/layers/pooling.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/layers/unary_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using testing::Fixture;
using testing::numbers;

using Wrap = std::function<Layer(Layer)>;

Layer as_it_is(Layer layer) { return layer; }

// A deep model, whose blocks draw random numbers and keep moving statistics.
Layer blocks(const Wrap& wrap) {
  const auto block = [&](int64_t units) {
    return wrap(Sequential({Dense(units), BatchNormalization(), Dropout(0.3),
                            ActivationLayer(activations::gelu), GaussianNoise(0.1)}));
  };
  return Sequential({block(8), block(8), Dense(4), block(3)});
}

// Only the input and output of each block stay in memory until the backward pass.
Layer deep_model(int blocks) {
  std::vector<Layer> layers;
  for (int i = 0; i < blocks; ++i) {
    layers.push_back(Recompute(Sequential(
        {Dense(64, {.activation = activations::relu}), BatchNormalization(), Dropout(0.3)})));
  }
  layers.push_back(Dense(1));
  return Sequential(layers);
}

void expect_same(const Fixture& one, const Fixture& other) {
  ASSERT_EQ(one.store.names(), other.store.names());
  for (const std::string& name : one.store.names()) {
    const Tensor &a = one.store.value(name), &b = other.store.value(name);
    EXPECT_TRUE(torch::equal(a, b)) << name;
    EXPECT_EQ(a.grad().defined(), b.grad().defined()) << name;
    if (!a.grad().defined()) continue;
    EXPECT_TRUE(torch::equal(a.grad(), b.grad())) << name;
  }
}

// Steps of gradient descent on both models; every number must have the same bits.
void expect_same_training(const Layer& plain, const Layer& recomputed, const Tensor& x) {
  Fixture fixtures[2];
  Tensor gradients[2], outputs[2];
  for (const int m : {0, 1}) {
    for (int64_t step = 0; step < 3; ++step) {
      fixtures[m].context.begin_step(true, step, 0);
      Tensor input = x.clone();
      if (input.is_floating_point()) input.requires_grad_();
      outputs[m] = (m == 0 ? plain : recomputed)(input, fixtures[m].context);
      Tensor loss = outputs[m].square().sum();
      for (const Tensor& added : fixtures[m].context.take_losses()) loss = loss + added;
      loss.backward();
      EXPECT_TRUE(fixtures[m].context.take_losses().empty());
      gradients[m] = input.grad();
      torch::NoGradGuard no_grad;
      for (const auto& variable : fixtures[m].store.variables()) {
        Tensor& value = variable->value();
        if (!value.requires_grad() || step == 2) continue;
        value.sub_(value.grad(), 0.05);
        value.mutable_grad().reset();
      }
    }
  }
  EXPECT_TRUE(torch::equal(outputs[0], outputs[1]));
  expect_same(fixtures[0], fixtures[1]);
  if (!gradients[0].defined()) return;
  EXPECT_TRUE(torch::equal(gradients[0], gradients[1]));
}

TEST(Recompute, ChangesNoBits) {
  expect_same_training(blocks(as_it_is), blocks(Recompute), numbers({6, 5}).to(kFloat32));
  expect_same_training(blocks(as_it_is), Recompute(blocks(Recompute)),
                       numbers({6, 5}).to(kFloat32));
  const auto images = [](const Wrap& wrap) {
    return Sequential({wrap(Sequential({Conv2D(16, 3, {.activation = activations::relu}),
                                        MaxPooling2D(), SpatialDropout2D(0.2)})),
                       Flatten(), wrap(Dense(3))});
  };
  expect_same_training(images(as_it_is), images(Recompute), numbers({3, 9, 9, 2}).to(kFloat32));
}

TEST(Recompute, ChangesNoBitsInAFunctional) {
  const auto model = [](const Wrap& wrap) {
    const SymbolicTensor x = Input({5}, {.dtype = kFloat64});
    const Layer shared = wrap(Sequential({Dense(5), Dropout(0.5)}));
    return Functional({x}, {wrap(Dense(2))(shared(shared(x)))});
  };
  expect_same_training(model(as_it_is), model(Recompute), numbers({6, 5}));
  expect_same_training(model(as_it_is), Recompute(model(as_it_is)), numbers({6, 5}));
}

// The penalty of a block reaches the layers in front of it, and counts once.
TEST(Recompute, ChangesNoBitsOfWhatLayersAddToTheLoss) {
  const auto model = [](const Wrap& wrap) {
    return Sequential({Dense(4), ActivityRegularization({.l2 = 0.3}),
                       wrap(Sequential({Dense(5), ActivityRegularization({.l1 = 0.2}), Dropout(0.3),
                                        ActivityRegularization({.l2 = 0.1})})),
                       Dense(2)});
  };
  expect_same_training(model(as_it_is), model(Recompute), numbers({6, 5}));
  expect_same_training(model(as_it_is), Recompute(model(Recompute)), numbers({6, 5}));
}

// Its batches may all run forward before the first one runs back, as long as the context lives.
TEST(Recompute, ChangesNoBitsWhereBatchesAddUp) {
  Fixture fixtures[2];
  for (const int m : {0, 1}) {
    const Layer model = blocks(m == 0 ? as_it_is : Recompute);
    std::vector<Tensor> losses;
    for (int64_t batch = 0; batch < 3; ++batch) {
      fixtures[m].context.begin_step(true, 4, 0, batch);
      const Tensor x = numbers({4, 6}, 0.1 * static_cast<double>(batch));
      losses.push_back(model(x, fixtures[m].context).square().sum());
    }
    fixtures[m].context.begin_step(false, 5, 0);
    for (const Tensor& loss : losses) loss.backward();
  }
  expect_same(fixtures[0], fixtures[1]);
}

TEST(Recompute, TrainsAllWeightsOfADeepModel) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  deep_model(5)(numbers({4, 3}), fixture.context).sum().backward();
  ASSERT_EQ(fixture.store.names().size(), 5 * 6u + 2);
  EXPECT_EQ(fixture.store.names()[30], "dense_5/kernel");
  for (const auto& variable : fixture.store.variables()) {
    EXPECT_EQ(variable->value().grad().defined(), variable->spec().trainable) << variable->name();
  }
}

TEST(Recompute, MovesStatisticsOnce) {
  Fixture fixture;
  fixture.context.begin_step(true, 0, 0);
  const Layer norm = Recompute(BatchNormalization({.momentum = 0.75}));
  const Tensor x = torch::full({4, 1}, 8.0, at::kDouble);
  const Tensor y = norm(x, fixture.context);
  const Tensor& mean = fixture.store.value("batch_normalization/moving_mean");
  EXPECT_EQ(mean.item<double>(), 2);
  y.sum().backward({}, /*retain_graph=*/true);
  EXPECT_EQ(mean.item<double>(), 2);
  y.sum().backward();
  EXPECT_EQ(mean.item<double>(), 2);
}

// Divides by the number of its earlier calls, and counts on: its result depends on state that it
// writes.
class CountedImpl final : public UnaryLayerImpl {
 public:
  CountedImpl() : UnaryLayerImpl("counted", "") {}

  Tensor call(const Tensor& input, CallContext& context) const override {
    const Tensor& count = context.variable(identity(), 0, [] {
      return VariableSpec{.name = "count",
                          .shape = {},
                          .dtype = kFloat64,
                          .initializer = initializers::ones(),
                          .trainable = false,
                          .synchronization = VariableSynchronization::kOnRead};
    });
    const Tensor result = (input / count.clone()).sin();
    torch::NoGradGuard no_grad;
    Tensor(count).add_(1);
    return result;
  }
};

TEST(Recompute, BeginsWithTheStateOfTheFirstCall) {
  const auto model = [](const Wrap& wrap) {
    const Layer counted(std::make_shared<CountedImpl>());
    return Sequential({Dense(3), wrap(Sequential({counted, Dense(3), counted})), counted});
  };
  expect_same_training(model(as_it_is), model(Recompute), numbers({4, 3}));
  expect_same_training(model(as_it_is), Recompute(model(Recompute)), numbers({4, 3}));
}

// Keeps an intermediate result.
class WatchedImpl final : public UnaryLayerImpl {
 public:
  using Watched = std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>;
  explicit WatchedImpl(std::shared_ptr<Watched> watched)
      : UnaryLayerImpl("watched", ""), watched_(std::move(watched)) {}

  Tensor call(const Tensor& input, CallContext&) const override {
    const Tensor between = input.exp();
    watched_->push_back(between.storage().getWeakStorageImpl());
    return between.sin();
  }

 private:
  std::shared_ptr<Watched> watched_;
};

TEST(Recompute, ForgetsWhatWasComputedOnTheWay) {
  for (const bool recomputes : {false, true}) {
    const auto watched = std::make_shared<WatchedImpl::Watched>();
    const auto layer = [&] { return Layer(std::make_shared<WatchedImpl>(watched)); };
    const Layer block = Sequential({layer(), layer(), layer()});
    Fixture fixture;
    const Layer model = Sequential({Dense(3), recomputes ? Recompute(block) : block, Dense(1)});
    const Tensor y = model(numbers({4, 3}), fixture.context);
    const auto alive = [&] {
      return std::count_if(watched->begin(), watched->end(),
                           [](const auto& each) { return !each.expired(); });
    };
    EXPECT_EQ(watched->size(), 3u);
    EXPECT_EQ(alive(), recomputes ? 0 : 3);
    y.sum().backward();
    EXPECT_EQ(watched->size(), recomputes ? 6u : 3u);
    EXPECT_EQ(alive(), 0);
  }
}

TEST(Recompute, NotesTheRowsOfATableOnce) {
  const auto model = [](const Wrap& wrap, bool row_sparse) {
    const Layer table = Embedding(9, 4, {.row_sparse = row_sparse});
    return Sequential({wrap(Sequential({table, Dropout(0.2), Dense(4)})), Dense(2)});
  };
  const Tensor ids = torch::tensor({{7, 1}, {1, 3}});
  Fixture fixtures[2];
  for (const int m : {0, 1}) {
    fixtures[m].context.begin_step(true, 0, 0);
    model(m == 0 ? as_it_is : Recompute, true)(ids, fixtures[m].context).square().sum().backward();
  }
  expect_same(fixtures[0], fixtures[1]);
  const auto uses = [&](int m) {
    return fixtures[m].store.find("embedding/embeddings")->row_uses();
  };
  ASSERT_EQ(uses(0).size(), 1u);
  ASSERT_EQ(uses(1).size(), 1u);
  EXPECT_TRUE(torch::equal(uses(0)[0].ids, uses(1)[0].ids));
  EXPECT_TRUE(torch::equal(uses(0)[0].rows.grad(), uses(1)[0].rows.grad()));
  expect_same_training(model(as_it_is, false), model(Recompute, false), ids);
}

// Returns its input twice, with the mask, and a state made of it.
class ForkImpl final : public LayerImpl {
 public:
  ForkImpl() : LayerImpl("fork", "") {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const Tensor& weight = context.variable(identity(), 0, [] {
      return VariableSpec{
          .name = "weight", .shape = {}, .dtype = kFloat64, .initializer = initializers::ones()};
    });
    const Tensor& x = inputs.tensors[0];
    return {.tensors = {x, x * weight},
            .masks = {Tensor(), inputs.masks[0]},
            .state = {inputs.state[0] * x.sum()}};
  }
};

TEST(Recompute, PassesOnTensorsMasksAndState) {
  for (const bool recomputes : {false, true}) {
    Fixture fixture;
    const Layer fork(std::make_shared<ForkImpl>());
    const Layer layer = recomputes ? Recompute(fork) : fork;
    const Tensor x = numbers({2, 3}).requires_grad_();
    const Tensor state = torch::full({2}, 3.0, at::kDouble).requires_grad_();
    const Tensor mask = torch::ones({2}, at::kBool);
    const LayerOutputs out =
        layer({.tensors = {x}, .masks = {mask}, .state = {state}}, fixture.context);
    ASSERT_EQ(out.tensors.size(), 2u);
    ASSERT_EQ(out.masks.size(), 2u);
    EXPECT_TRUE(out.masks[1].is_same(mask));
    ASSERT_EQ(out.state.size(), 1u);
    // An unused result gets no gradient.
    out.state[0].sum().backward();
    EXPECT_FALSE(fixture.store.value("fork/weight").grad().defined());
    EXPECT_TRUE(torch::allclose(x.grad(), torch::full({2, 3}, 6.0, at::kDouble)));
    EXPECT_TRUE(torch::equal(state.grad(), x.detach().sum().expand({2})));
  }
}

TEST(Recompute, IsTheLayerItselfWithoutGradients) {
  Fixture fixture;
  torch::NoGradGuard no_grad;
  const auto watched = std::make_shared<WatchedImpl::Watched>();
  const Layer layer(std::make_shared<WatchedImpl>(watched));
  const Tensor x = numbers({2, 3});
  EXPECT_TRUE(torch::equal(Recompute(layer)(x, fixture.context), layer(x, fixture.context)));
  EXPECT_EQ(watched->size(), 2u);
}

// A penalty on the gradient of the input, as critics of images have it. The input comes from a
// layer that the block uses too, and from a random block; one result stays unused.
TEST(Recompute, HasGradientsOfGradients) {
  const auto model = [](const Wrap& wrap) {
    const SymbolicTensor x = Input({5}, {.dtype = kFloat64});
    const Layer shared = Dense(5, {.activation = activations::tanh});
    const Layer inner = wrap(
        Sequential({shared, BatchNormalization(), Dropout(0.3), ActivityRegularization({.l2 = 0.1}),
                    shared, ActivationLayer(activations::gelu)}));
    return Functional({x}, {Dense(2)(inner(wrap(Dense(5))(shared(x))))});
  };
  for (const bool all_of_it : {false, true}) {
    Fixture fixtures[2];
    Tensor of_input[2];
    for (const int m : {0, 1}) {
      Fixture& fixture = fixtures[m];
      fixture.context.begin_step(true, 0, 0);
      Layer layer = model(m == 0 ? as_it_is : Recompute);
      if (m == 1 && all_of_it) layer = Recompute(model(as_it_is));
      const Tensor x = numbers({6, 5}).requires_grad_();
      Tensor loss = layer(x, fixture.context).square().sum();
      for (const Tensor& added : fixture.context.take_losses()) loss = loss + added;
      const Tensor slope = torch::autograd::grad({loss}, {x}, {}, /*retain_graph=*/true,
                                                 /*create_graph=*/true)[0];
      ((slope.square().sum() - 1).square() + loss).backward();
      of_input[m] = x.grad();
    }
    EXPECT_TRUE(torch::allclose(of_input[0], of_input[1], 1e-9, 1e-9));
    ASSERT_EQ(fixtures[0].store.names(), fixtures[1].store.names());
    for (const std::string& name : fixtures[0].store.names()) {
      const Tensor &one = fixtures[0].store.value(name), &other = fixtures[1].store.value(name);
      EXPECT_TRUE(torch::allclose(one, other, 1e-12, 1e-12)) << name;
      ASSERT_EQ(one.grad().defined(), other.grad().defined()) << name;
      if (!one.grad().defined()) continue;
      EXPECT_TRUE(torch::allclose(one.grad(), other.grad(), 1e-9, 1e-9)) << name;
    }
  }
}

// y = x^3 / 3 has the gradient x^2, and that one 2 x.
TEST(Recompute, HasTheGradientsOfGradientsOfAClosedForm) {
  Fixture fixture;
  const Layer cube = Recompute(Lambda([](const Tensor& x) { return x.pow(3) / 3; }));
  const Tensor x = numbers({4, 2}).requires_grad_();
  const Tensor slope =
      torch::autograd::grad({cube(x, fixture.context).sum()}, {x}, {}, true, true)[0];
  EXPECT_TRUE(torch::allclose(slope, x.square(), 1e-12, 1e-12));
  EXPECT_TRUE(
      torch::allclose(torch::autograd::grad({slope.sum()}, {x}, {}, true)[0], 2 * x, 1e-12, 1e-12));
  EXPECT_EQ(message_of([&] {
              torch::autograd::grad({slope.sum()}, {x}, {}, true, /*create_graph=*/true);
            }),
            "Recompute: third derivatives were asked for");
}

TEST(Recompute, RefusesWhatItCannotRepeat) {
  Fixture fixture;
  const Tensor x = numbers({2, 3}).requires_grad_();

  class MoodyImpl final : public UnaryLayerImpl {
   public:
    explicit MoodyImpl(int draws) : UnaryLayerImpl("moody", ""), draws_(draws) {}
    Tensor call(const Tensor& input, CallContext& context) const override {
      for (int i = 0; i < *calls_ * draws_ + 2; ++i) context.random_key(identity());
      ++*calls_;
      return input * 2;
    }

   private:
    int draws_;
    std::shared_ptr<int> calls_ = std::make_shared<int>(0);
  };
  for (const int draws : {1, -1}) {
    const Layer moody(std::make_shared<MoodyImpl>(draws));
    const Tensor z = Recompute(moody)(x, fixture.context).sum();
    EXPECT_EQ(message_of([&] { z.backward(); }),
              "Recompute: its layer asked for other variables or random keys when it was called "
              "again");
  }
}

}  // namespace
}  // namespace muster::inline v0_1
