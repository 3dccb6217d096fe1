#include "muster/distribute/flat_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/distribute/internal/test_variables.h"
#include "muster/distribute/variable_table.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::heap;
using testing::no_loss;
using testing::only;
using testing::spec_of;

TEST(FlatParametersTest, WeightsLieAlignedInOneBufferAndKeepTheirValues) {
  VariableTable table(1);
  for (const auto& [name, shape] :
       {std::pair{"a", Shape{3}}, std::pair{"b", Shape{4, 5}}, std::pair{"c", Shape{}}}) {
    table.get_or_create(spec_of(name, shape));
  }
  std::vector<Tensor> before;
  for (const auto& variable : table.variables()) before.push_back(variable->value().clone());
  const FlatParameters flat(table, optim::sgd().minimize(no_loss()), heap);
  ASSERT_EQ(flat.buffers().size(), 1u);
  EXPECT_EQ(flat.buffers()[0].elements, 16 + 32 + 16);
  const float* memory = flat.buffers()[0].weights.data_ptr<float>();
  ASSERT_EQ(flat.parameters().size(), 3u);
  for (size_t p = 0; p < 3; ++p) {
    const auto& parameter = flat.parameters()[p];
    const Tensor& value = parameter.variable->value();
    EXPECT_EQ(value.data_ptr<float>(), memory + parameter.offset);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(value.data_ptr()) % 64, 0u);
    EXPECT_TRUE(value.is_leaf() && value.requires_grad());
    EXPECT_TRUE(value.equal(before[p]));
    EXPECT_EQ(value.sizes(), before[p].sizes());
  }
}

TEST(FlatParametersTest, ABackwardThroughChangedWeightsThrows) {
  VariableTable table(1);
  table.get_or_create(spec_of("a", {3}));
  const FlatParameters flat(table, optim::sgd().minimize(no_loss()), heap);
  const Tensor& value = table.find("a")->value();
  const Tensor loss = (value * value).sum();
  {
    torch::NoGradGuard no_grad;
    Tensor(flat.buffers()[0].weights).add_(1);
  }
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(FlatParametersTest, FiltersGiveEachVariableItsOptimizerAndFreezeTheRest) {
  VariableTable table(1);
  for (const char* name : {"x/kernel", "x/bias", "y/kernel", "fixed"})
    table.get_or_create(spec_of(name, {5}));
  const auto op = optim::group({optim::adam().minimize(no_loss(), only("bias")),
                                optim::sgd({.momentum = 0.9}).minimize(no_loss(), only("kernel"))});
  const FlatParameters flat(table, op, heap);
  std::vector<std::string> order;
  for (const auto& parameter : flat.parameters()) order.push_back(parameter.variable->name());
  EXPECT_THAT(order, ElementsAre("x/bias", "x/kernel", "y/kernel"));
  EXPECT_THAT(flat.entry_parameters(0), ElementsAre(0));
  EXPECT_THAT(flat.entry_parameters(1), ElementsAre(1, 2));
  EXPECT_FALSE(table.find("fixed")->value().requires_grad());
  std::vector<std::string> slots;
  for (const auto& [name, tensor] : flat.slots()) slots.push_back(name);
  EXPECT_THAT(slots,
              ElementsAre("Adam/iterations", "Adam/m/x/bias", "Adam/v/x/bias", "SGD/iterations",
                          "SGD/momentum/x/kernel", "SGD/momentum/y/kernel"));
}

TEST(FlatParametersTest, RefusesWhatCannotTrain) {
  const auto message = [](const std::vector<VariableSpec>& specs, const optim::TrainOp& op) {
    VariableTable table(1);
    for (const auto& spec : specs) table.get_or_create(spec);
    const Error error = error_of([&] { FlatParameters flat(table, op, heap); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    return error.message();
  };
  const auto sgd = optim::sgd();
  EXPECT_THAT(message({spec_of("a", {1})},
                      optim::group({sgd.minimize(no_loss()), optim::adam().minimize(no_loss())})),
              HasSubstr("a is claimed by two entries of the train_op (SGD and Adam)"));
  EXPECT_THAT(message({spec_of("a", {1}), spec_of("b", {1})},
                      optim::group({sgd.minimize(no_loss(), only("a")),
                                    optim::sgd().minimize(no_loss(), only("b"))})),
              HasSubstr("two optimizers of the train_op are called \"SGD\""));
  EXPECT_THAT(
      message({spec_of("a", {1}), spec_of("b", {1})},
              optim::group({sgd.minimize(no_loss(), only("a")),
                            optim::clip_by_global_norm(sgd, 1).minimize(no_loss(), only("b"))})),
      HasSubstr("two optimizers of the train_op are called \"SGD\""));
  EXPECT_THAT(message({spec_of("a", {1})}, sgd.minimize(no_loss(), only("nothing"))),
              HasSubstr("no variable to train"));
  EXPECT_THAT(message({spec_of("a", {1}, at::kHalf)}, sgd.minimize(no_loss())),
              HasSubstr("not supported: training the variable a float16[1]"));
}

// One optimizer in two entries (two losses) is one optimizer.
TEST(FlatParametersTest, OneOptimizerMayTrainTwoLosses) {
  VariableTable table(1);
  table.get_or_create(spec_of("a", {1}));
  table.get_or_create(spec_of("b", {1}));
  const auto sgd = optim::sgd();
  const FlatParameters flat(
      table, optim::group({sgd.minimize(no_loss(), only("a")), sgd.minimize(no_loss(), only("b"))}),
      heap);
  EXPECT_EQ(flat.slots().size(), 1u);  // SGD/iterations
}

class UpdateTest : public ::testing::Test {
 protected:
  UpdateTest() : table_(3) {
    table_.get_or_create(spec_of("a", {3}));
    table_.get_or_create(spec_of("b", {20}));
    table_.get_or_create(spec_of("wide", {2, 2}, kFloat64));
    table_.get_or_create(spec_of("c", {7}));
  }

  std::map<std::string, Tensor> state(const FlatParameters& flat) const {
    std::map<std::string, Tensor> state;
    for (const auto& [name, tensor] : flat.slots()) state[name] = tensor.clone();
    for (const auto& variable : table_.variables())
      state[variable->name()] = variable->value().detach().clone();
    return state;
  }

  // Gradient of a parameter: 1, 2, 3, ...
  static Tensor gradient(const FlatParameters::Parameter& parameter) {
    const auto& value = parameter.variable->value();
    return torch::arange(1, value.numel() + 1, value.options().requires_grad(false))
        .view(value.sizes());
  }

  VariableTable table_;
};

TEST_F(UpdateTest, UnusedParametersAndTheirSlotsStay) {
  const auto op = optim::adam({.learning_rate = 0.1}).minimize(no_loss());
  FlatParameters flat(table_, op, heap);
  ASSERT_EQ(flat.buffers().size(), 2u);
  std::vector<Tensor> gradients;
  for (const auto& buffer : flat.buffers()) gradients.push_back(torch::zeros_like(buffer.weights));
  std::vector<bool> used;
  for (const auto& parameter : flat.parameters()) {
    gradients[size_t(parameter.buffer)]
        .slice(0, parameter.offset, parameter.offset + parameter.elements)
        .copy_(gradient(parameter).view({-1}));
    used.push_back(parameter.variable->name() != "b");
  }
  const auto before = state(flat);
  flat.update_flat(op, gradients, used, {}, 0.5);
  const auto after = state(flat);
  for (const char* name : {"b", "Adam/m/b", "Adam/v/b"})
    EXPECT_TRUE(after.at(name).equal(before.at(name))) << name;
  for (const char* name : {"a", "c", "wide", "Adam/m/a", "Adam/v/wide"})
    EXPECT_FALSE(after.at(name).equal(before.at(name))) << name;
  EXPECT_EQ(after.at("Adam/iterations").item<int64_t>(), 1);
  // m = (1 - beta_1) * gradient * scale
  EXPECT_TRUE(torch::allclose(after.at("Adam/m/wide"),
                              0.1 * 0.5 * torch::arange(1.0, 5.0, kFloat64).view({2, 2})));
}

class SameBitsTest : public UpdateTest, public ::testing::WithParamInterface<optim::Optimizer> {};

TEST_P(SameBitsTest, FlatAndInPlaceUpdatesAreTheSameBits) {
  const auto op = GetParam().minimize(no_loss());
  VariableTable other(3);
  for (const auto& variable : table_.variables()) other.get_or_create(variable->spec());
  FlatParameters flat(table_, op, heap), in_place(other, op, heap);
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> gradients;
    for (const auto& buffer : flat.buffers())
      gradients.push_back(torch::zeros_like(buffer.weights));
    std::vector<bool> used;
    for (size_t p = 0; p < flat.parameters().size(); ++p) {
      const auto& parameter = flat.parameters()[p];
      used.push_back((static_cast<size_t>(step) + p) % 3 != 0);
      if (!used.back()) continue;
      gradients[size_t(parameter.buffer)]
          .slice(0, parameter.offset, parameter.offset + parameter.elements)
          .copy_(gradient(parameter).view({-1}));
      in_place.parameters()[p].variable->value().mutable_grad() = gradient(parameter);
    }
    flat.update_flat(op, gradients, used, {}, 0.25);
    in_place.update_in_place(op, 0.25);
  }
  for (const auto& variable : table_.variables()) {
    EXPECT_TRUE(variable->value().equal(other.find(variable->name())->value())) << variable->name();
    EXPECT_FALSE(other.find(variable->name())->value().grad().defined());
  }
  const auto slots = flat.slots(), others = in_place.slots();
  for (const auto& [name, tensor] : slots) EXPECT_TRUE(tensor.equal(others.at(name))) << name;
}

// Writes gradients and weights, and knows them by name and shape.
class Pull final : public optim::GradientTransformation {
 public:
  std::string describe() const override { return "pull"; }
  void transform(optim::StepGradients& step) const override {
    for (optim::StepGradients::Item& item : step.items) {
      item.gradient.add_(item.weights, 0.1 / step.scale).clamp_(-3, 3);
      if (item.variable->name == "a") item.weights.mul_(0.9);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(
    Optimizers, SameBitsTest,
    ::testing::Values(
        optim::sgd({.learning_rate = 0.1, .momentum = 0.9}),
        optim::clip_by_global_norm(optim::adam({.learning_rate = 0.1}), 3),
        optim::clip_by_global_norm(optim::sgd().with(std::make_shared<Pull>()), 3),
        optim::adamw({.amsgrad = true, .exclude_from_weight_decay = {"^b$"}}),
        optim::ftrl({.learning_rate = 0.1}), optim::nadam(), optim::lion(),
        optim::exponential_moving_average(optim::adafactor({.learning_rate = 0.1})),
        optim::exponential_moving_average(optim::look_ahead(optim::adam(), {.sync_period = 2}),
                                          {.overwrite_frequency = 3, .exclude = {"^b$"}}),
        optim::loss_scaling(optim::clip_by_norm(optim::sgd(), 1)),
        optim::rmsprop({.momentum = 0.9, .centered = true}),
        optim::lamb({.learning_rate = 0.1, .weight_decay = 0.1}),
        optim::lars({.learning_rate = 0.1, .nesterov = true}),
        optim::learning_rate_multipliers(
            optim::decoupled_weight_decay(optim::adamax(), {.weight_decay = 0.1}), {{"a", 0.5}}),
        optim::clip_by_norm(optim::centralize_gradients(optim::adadelta()), 0.5)));

// A rule sees whole variables where it asks for them, and no padding.
TEST_F(UpdateTest, TrustRatiosAreOfSingleVariables) {
  const auto op = optim::lars({.learning_rate = 1, .momentum = 0, .eeta = 0.1}).minimize(no_loss());
  FlatParameters flat(table_, op, heap);
  std::vector<Tensor> gradients;
  for (const auto& buffer : flat.buffers()) gradients.push_back(torch::zeros_like(buffer.weights));
  for (const auto& parameter : flat.parameters()) {
    gradients[size_t(parameter.buffer)]
        .slice(0, parameter.offset, parameter.offset + parameter.elements)
        .copy_(gradient(parameter).view({-1}));
  }
  const auto before = state(flat);
  flat.update_flat(op, gradients, std::vector<bool>(flat.parameters().size(), true), {}, 1);
  for (const auto& parameter : flat.parameters()) {
    const std::string& name = parameter.variable->name();
    const Tensor moved = before.at(name) - parameter.variable->value().detach();
    const double weights = before.at(name).norm().item<double>();
    const double expected =
        weights == 0 ? gradient(parameter).norm().item<double>() : 0.1 * weights;
    EXPECT_NEAR(moved.norm().item<double>(), expected, 1e-5 * expected) << name;
  }
}

// Every optimizer updates the rows that were used as it would update a variable of these rows
// alone, and touches no other, slots included.
TEST_F(UpdateTest, RowsAreUpdatedAsAVariableOfTheirOwn) {
  const std::vector<optim::Optimizer> optimizers{
      optim::sgd({.momentum = 0.9}),
      optim::adam({.amsgrad = true}),
      optim::adamw(),
      optim::adamax(),
      optim::nadam(),
      optim::adagrad(),
      optim::adadelta(),
      optim::ftrl(),
      optim::rmsprop({.momentum = 0.5, .centered = true}),
      optim::lion(),
      optim::lamb({.weight_decay = 0.1}),
      optim::lars({.weight_decay = 0.1}),
      optim::decoupled_weight_decay(optim::sgd(), {.weight_decay = 0.5})};
  for (const optim::Optimizer& optimizer : optimizers) {
    VariableTable sparse(7), dense(7);
    VariableSpec spec = spec_of("table", {5, 3});
    spec.row_sparse = true;
    Variable& table = sparse.get_or_create(spec);
    Variable& rows = dense.get_or_create(spec_of("table", {2, 3}));
    const auto op = optimizer.minimize(no_loss());
    FlatParameters of_table(sparse, op, heap), of_rows(dense, op, heap);
    const Tensor ids = torch::tensor({1, 3}), others = torch::tensor({0, 2, 4});
    torch::NoGradGuard no_grad;
    table.value().copy_(torch::arange(15.0).view({5, 3}) / 10);
    rows.value().copy_(table.value().index_select(0, ids));
    const Tensor before = table.value().detach().clone();
    for (int step = 0; step < 3; ++step) {
      const Tensor values = (torch::arange(6.0) - 2.5 + step).view({2, 3});
      rows.value().mutable_grad() = values.clone();
      of_rows.update_in_place(op, 0.5);
      of_table.update_flat(op, {torch::zeros({0})}, {}, {{ids, values.clone()}}, 0.5);
    }
    EXPECT_TRUE(torch::equal(table.value().index_select(0, ids), rows.value()))
        << optimizer.describe();
    EXPECT_TRUE(torch::equal(table.value().index_select(0, others), before.index_select(0, others)))
        << optimizer.describe();
    const auto expected = of_rows.slots();
    for (const auto& [name, slot] : of_table.slots()) {
      if (slot.dim() == 0) continue;
      EXPECT_TRUE(torch::equal(slot.index_select(0, ids), expected.at(name))) << name;
      const Tensor untouched = slot.index_select(0, others);
      EXPECT_TRUE(
          torch::equal(untouched, torch::full_like(untouched, untouched[0][0].item<float>())))
          << name;
    }
  }
}

TEST_F(UpdateTest, TellsTheRatesOfSchedules) {
  const auto halves = [](double first) {
    return optim::exponential_decay(
        {.initial_learning_rate = first, .decay_steps = 1, .decay_rate = 0.5});
  };
  const auto rates_after = [&](const optim::TrainOp& op, int updates) {
    FlatParameters flat(table_, op, heap);
    EXPECT_TRUE(flat.learning_rates().empty());
    for (int i = 0; i < updates; ++i) flat.update_in_place(op, 1);
    return flat.learning_rates();
  };
  using Rates = std::map<std::string, double>;
  EXPECT_EQ(rates_after(optim::sgd().minimize(no_loss()), 1), Rates());
  EXPECT_EQ(rates_after(optim::sgd({.learning_rate = halves(1)}).minimize(no_loss()), 3),
            (Rates{{"learning_rate", 0.25}}));
  const auto two =
      optim::group({optim::sgd({.learning_rate = halves(1)}).minimize(no_loss(), only("a")),
                    optim::adam({.learning_rate = halves(8)}).minimize(no_loss(), only("b")),
                    optim::ftrl().minimize(no_loss(), only("c"))});
  EXPECT_EQ(rates_after(two, 2), (Rates{{"SGD/learning_rate", 0.5}, {"Adam/learning_rate", 4}}));
}

TEST_F(UpdateTest, TransformationsWriteGradientsAndWeights) {
  const auto op = optim::sgd({.learning_rate = 1}).with(std::make_shared<Pull>());
  const auto train_op = op.minimize(no_loss());
  FlatParameters flat(table_, train_op, heap);
  const auto before = state(flat);
  for (const auto& parameter : flat.parameters())
    parameter.variable->value().mutable_grad() = gradient(parameter);
  flat.update_in_place(train_op, 0.5);
  for (const auto& parameter : flat.parameters()) {
    const std::string& name = parameter.variable->name();
    const Tensor pulled = (gradient(parameter) + 0.2 * before.at(name)).clamp(-3, 3);
    const Tensor expected = (name == "a" ? 0.9 : 1.0) * before.at(name) - 0.5 * pulled;
    EXPECT_TRUE(torch::allclose(parameter.variable->value().detach(), expected)) << name;
  }
}

TEST_F(UpdateTest, TransformationsSeeTheRowsOfATable) {
  VariableSpec spec = spec_of("table", {5, 2});
  spec.row_sparse = true;
  Variable& table = table_.get_or_create(spec);
  const auto op = optim::clip_by_global_norm(optim::sgd({.learning_rate = 1}), 1);
  const auto train_op = op.minimize(no_loss(), only("table"));
  FlatParameters flat(table_, train_op, heap);
  const Tensor before = table.value().detach().clone();
  table.rows(torch::tensor({3, 1})).sum().backward();
  flat.tables().collect();
  flat.update_in_place(train_op, 1);
  // Four gradients of 1 have norm 2.
  const Tensor change = before - table.value().detach();
  EXPECT_TRUE(torch::allclose(change[1], torch::full({2}, 0.5)));
  EXPECT_TRUE(torch::allclose(change[3], torch::full({2}, 0.5)));
  EXPECT_EQ(change.abs().sum().item<float>(), 2.0f);
}

// Two optimizers: each has a norm of its own, over the gradients it is given.
TEST_F(UpdateTest, ClippingShortensTheGradientsOfAnOptimizerTogether) {
  const auto wide_only = [](const VariableSpec& spec) { return spec.name == "wide"; };
  const auto others = [&](const VariableSpec& spec) { return !wide_only(spec); };
  const auto op = optim::group(
      {optim::clip_by_global_norm(optim::sgd({.learning_rate = 1}), 2).minimize(no_loss(), others),
       optim::clip_by_global_norm(optim::sgd({.learning_rate = 1, .name = "free"}), 100)
           .minimize(no_loss(), wide_only)});
  FlatParameters flat(table_, op, heap);
  const auto before = state(flat);
  double squares = 0;
  for (const auto& parameter : flat.parameters()) {
    const Tensor given = gradient(parameter);
    if (others(parameter.variable->spec())) squares += given.square().sum().item<double>();
    parameter.variable->value().mutable_grad() = given.clone();
  }
  flat.update_in_place(op, 0.5);
  const auto after = state(flat);
  const double factor = 2 / (0.5 * std::sqrt(squares));
  ASSERT_LT(factor, 1);
  for (const auto& parameter : flat.parameters()) {
    const std::string& name = parameter.variable->name();
    const double expected = 0.5 * (name == "wide" ? 1 : factor);
    EXPECT_TRUE(torch::allclose(before.at(name) - after.at(name), expected * gradient(parameter),
                                1e-5, 1e-6))
        << name;
  }
}

TEST_F(UpdateTest, WhatCannotBeClippedUpdatesNothing) {
  const auto op = optim::clip_by_global_norm(optim::adam(), 1).minimize(no_loss());
  FlatParameters flat(table_, op, heap);
  const auto before = state(flat);
  for (const auto& parameter : flat.parameters()) {
    parameter.variable->value().mutable_grad() = gradient(parameter);
  }
  flat.parameters().back().variable->value().mutable_grad()[0] =
      std::numeric_limits<double>::infinity();
  const Error error = error_of([&] { flat.update_in_place(op, 1); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_THAT(error.message(), HasSubstr("the gradients of optimizer Adam is inf"));
  for (const auto& [name, tensor] : state(flat)) EXPECT_TRUE(tensor.equal(before.at(name))) << name;
}

TEST_F(UpdateTest, PiecesCoverAllState) {
  const auto op = optim::adam().minimize(no_loss());
  FlatParameters flat(table_, op, heap);
  torch::NoGradGuard no_grad;
  for (const Tensor& piece : flat.pieces()) piece.fill_(42);
  for (const auto& [name, tensor] : state(flat))
    EXPECT_TRUE(tensor.eq(42).all().item<bool>()) << name;
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
