// What optimizers keep in addition to moments: slots that begin as weights, and loss scales.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "muster/base/error_of.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/internal/backward.h"
#include "muster/distribute/internal/test_variables.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using testing::heap;
using testing::no_loss;
using testing::only;
using testing::spec_of;

TEST(OptimizerStateTest, AveragesAndSlowWeightsBeginAsTheWeightsDo) {
  VariableTable table(7);
  VariableSpec rows = spec_of("rows", {5, 2});
  rows.row_sparse = true;
  for (const VariableSpec& spec :
       {spec_of("a", {3}), spec_of("b", {4, 5}), spec_of("wide", {2}, kFloat64), rows}) {
    table.get_or_create(spec);
  }
  const auto optimizer = optim::exponential_moving_average(optim::look_ahead(optim::sgd()));
  const FlatParameters flat(table, optimizer.minimize(no_loss()), heap);
  const auto slots = flat.slots();
  EXPECT_EQ(slots.size(), 1u + 2 * 4);
  for (const auto& variable : table.variables()) {
    for (const std::string slot : {"average", "slow"}) {
      const Tensor& begun = slots.at("SGD/" + slot + "/" + variable->name());
      EXPECT_TRUE(begun.equal(variable->value())) << slot << " of " << variable->name();
      EXPECT_NE(begun.data_ptr(), variable->value().data_ptr());
    }
  }
}

TEST(OptimizerStateTest, ASlotMayHaveAShapeOfItsOwn) {
  VariableTable table(7);
  VariableSpec rows = spec_of("rows", {5, 2});
  rows.row_sparse = true;
  for (const VariableSpec& spec : {spec_of("bias", {3}), spec_of("kernel", {2, 4, 5}), rows})
    table.get_or_create(spec);
  const auto op = optim::look_ahead(optim::adafactor()).minimize(no_loss());
  FlatParameters flat(table, op, heap);
  std::map<std::string, Shape> shapes;
  for (const auto& [name, slot] : flat.slots()) shapes[name] = slot.sizes().vec();
  EXPECT_EQ(shapes, (std::map<std::string, Shape>{{"Adafactor/iterations", {}},
                                                  {"Adafactor/v/bias", {3}},
                                                  {"Adafactor/slow/bias", {3}},
                                                  {"Adafactor/vr/kernel", {2, 4}},
                                                  {"Adafactor/vc/kernel", {2, 5}},
                                                  {"Adafactor/slow/kernel", {2, 4, 5}},
                                                  {"Adafactor/v/rows", {5, 2}},
                                                  {"Adafactor/slow/rows", {5, 2}}}));
  EXPECT_TRUE(flat.slots().at("Adafactor/slow/kernel").equal(table.find("kernel")->value()));
  // The pieces are all of it.
  int64_t elements = 0;
  for (const Tensor& piece : flat.pieces()) elements += piece.numel();
  EXPECT_EQ(elements, (16 + 48) + 1 + (3 + 3) + (8 + 10 + 40) + 3 * 10);
  // Only the row that was used changes.
  const Tensor before = table.find("rows")->value().detach().clone();
  const Tensor unused = torch::zeros_like(flat.buffers()[0].weights);
  flat.update_flat(op, {unused}, {false, false},
                   {{torch::tensor({3}, kInt64), torch::ones({1, 2})}}, 1);
  const Tensor moved = table.find("rows")->value().ne(before).any(1);
  EXPECT_TRUE(moved.equal(torch::arange(5).eq(3)));
  EXPECT_TRUE(flat.slots().at("Adafactor/v/rows").ne(0).any(1).equal(moved));
}

// By hand: a plateau halves the rate of 1, of dense variables and of rows.
TEST(OptimizerStateTest, AReducedRateIsThatOfTheNextUpdate) {
  VariableTable table(7);
  VariableSpec rows = spec_of("rows", {5, 2});
  rows.row_sparse = true;
  for (const VariableSpec& spec : {spec_of("bias", {3}), rows}) table.get_or_create(spec);
  const auto op = optim::reduce_on_plateau(optim::sgd({.learning_rate = 1}),
                                           {.steps = 1, .factor = 0.5, .patience = 1})
                      .minimize(no_loss());
  FlatParameters flat(table, op, heap);
  const Tensor bias = table.find("bias")->value().detach(), row = table.find("rows")->value()[3];
  for (const auto& [loss, rate] :
       {std::pair{4.0, 1.0}, std::pair{4.0, 1.0}, std::pair{3.0, 0.5}, std::pair{4.0, 0.5}}) {
    const Tensor bias_before = bias.clone(), row_before = row.detach().clone();
    flat.update_flat(op, {torch::ones_like(flat.buffers()[0].weights)}, {true},
                     {{torch::tensor({3}, kInt64), torch::ones({1, 2})}}, 1);
    EXPECT_TRUE(torch::allclose(bias_before - bias, torch::full({3}, rate)));
    EXPECT_TRUE(
        torch::allclose(row_before - table.find("rows")->value()[3], torch::full({2}, rate)));
    EXPECT_EQ(flat.learning_rates(), (std::map<std::string, double>{{"learning_rate", rate}}));
    table.find("bias")->value().mutable_grad() = torch::ones({3});
    const Tensor again = bias.clone();
    flat.update_in_place(op, 1);
    EXPECT_TRUE(torch::allclose(again - bias, torch::full({3}, rate)));
    flat.note_loss(loss);
  }
  EXPECT_EQ(flat.slots().at("SGD/plateau")[0].item<double>(), 0.25);
}

// Two variables, each with its optimizer; a loss of both.
class LossScaleTest : public ::testing::Test {
 protected:
  LossScaleTest() : table_(3) {
    for (const char* name : {"a", "b"}) table_.get_or_create(spec_of(name, {4}));
  }
  optim::TrainOp train_op(const Tensor& loss, const optim::LossScalingOptions& options) const {
    return optim::group(
        {optim::loss_scaling(optim::sgd({.momentum = 0.9}), options).minimize(loss, only("a")),
         optim::adam().minimize(loss, only("b"))});
  }
  Tensor loss() const { return (value("a") * value("b").detach() + value("b")).mean(); }
  const Tensor& value(const std::string& name) const { return table_.find(name)->value(); }

  VariableTable table_;
};

TEST_F(LossScaleTest, BackwardScalesTheLossOfEachOptimizer) {
  FlatParameters flat(table_, train_op(no_loss(), {.initial_scale = 8}), heap);
  internal::Backward(table_, false).run(train_op(loss(), {.initial_scale = 8}), flat, 2.0);
  EXPECT_TRUE(torch::allclose(value("a").grad(), value("b").detach() * 8 * 2 / 4));
  EXPECT_TRUE(torch::allclose(value("b").grad(), torch::full({4}, 2.0 / 4)));
}

// By hand: gradients 8, with a scale of 8 and half of it for the mean.
TEST_F(LossScaleTest, GradientsAreDividedByTheScaleBeforeTheyAreClipped) {
  const auto op = optim::loss_scaling(optim::clip_by_value(optim::sgd({.learning_rate = 1}), 0.25),
                                      {.dynamic = false, .initial_scale = 8})
                      .minimize(no_loss());
  FlatParameters flat(table_, op, heap);
  EXPECT_EQ(flat.slots().size(), 1u) << "a fixed scale is not a state";
  const Tensor before_a = value("a").detach().clone(), before_b = value("b").detach().clone();
  table_.find("a")->value().mutable_grad() = torch::full({4}, 8.0f);
  table_.find("b")->value().mutable_grad() = torch::full({4}, 2.0f);
  flat.update_in_place(op, 0.5);
  EXPECT_TRUE(torch::allclose(value("a"), before_a - 0.25));
  EXPECT_TRUE(torch::allclose(value("b"), before_b - 0.125));
}

TEST_F(LossScaleTest, AStepWithGradientsThatAreNotFiniteIsLeftOut) {
  const optim::LossScalingOptions options{.initial_scale = 4, .dynamic_growth_steps = 2};
  const auto op = train_op(no_loss(), options);
  VariableTable other(3);
  for (const auto& variable : table_.variables()) other.get_or_create(variable->spec());
  FlatParameters flat(table_, op, heap), in_place(other, op, heap);
  const auto update = [&](double a) {
    std::vector<Tensor> gradients{torch::zeros_like(flat.buffers()[0].weights)};
    for (size_t p = 0; p < 2; ++p) {
      const auto& parameter = flat.parameters()[p];
      const Tensor gradient = torch::full({4}, parameter.variable->name() == "a" ? a : 1.0);
      gradients[0].slice(0, parameter.offset, parameter.offset + 4).copy_(gradient);
      in_place.parameters()[p].variable->value().mutable_grad() = gradient;
    }
    flat.update_flat(op, gradients, {true, true}, {}, 1);
    in_place.update_in_place(op, 1);
    for (const auto& [name, tensor] : flat.slots())
      EXPECT_TRUE(tensor.equal(in_place.slots().at(name))) << name;
    for (const auto& variable : other.variables()) {
      EXPECT_TRUE(variable->value().equal(value(variable->name())));
      EXPECT_FALSE(variable->value().grad().defined());
    }
  };
  const auto expect_state = [&](double scale, int64_t good_steps, int64_t sgd, int64_t adam) {
    const auto slots = flat.slots();
    EXPECT_EQ(slots.at("SGD/loss_scale").item<double>(), scale);
    EXPECT_EQ(slots.at("SGD/good_steps").item<int64_t>(), good_steps);
    EXPECT_EQ(slots.at("SGD/iterations").item<int64_t>(), sgd);
    EXPECT_EQ(slots.at("Adam/iterations").item<int64_t>(), adam);
    EXPECT_FALSE(slots.contains("Adam/loss_scale"));
  };
  update(1);
  expect_state(4, 1, 1, 1);
  const Tensor a = value("a").detach().clone(), b = value("b").detach().clone();
  const Tensor momentum = flat.slots().at("SGD/momentum/a").clone();
  update(std::numeric_limits<double>::infinity());
  expect_state(2, 0, 1, 2);
  EXPECT_TRUE(value("a").equal(a));
  EXPECT_TRUE(flat.slots().at("SGD/momentum/a").equal(momentum));
  EXPECT_FALSE(value("b").equal(b)) << "another optimizer goes on";
  update(1);
  update(1);
  expect_state(4, 0, 3, 4);
  update(std::nan(""));
  update(std::nan(""));
  expect_state(1, 0, 3, 6);
  const Error error = error_of([&] { update(std::nan("")); });
  EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(error.message(),
            "the gradients of optimizer SGD are not finite, with a loss scale of 1");
  expect_state(1, 0, 3, 6);
}

TEST_F(LossScaleTest, RowsAreLookedAtToo) {
  VariableTable table(1);
  VariableSpec spec = spec_of("rows", {5, 2});
  spec.row_sparse = true;
  table.get_or_create(spec);
  const auto op = optim::loss_scaling(optim::sgd({.learning_rate = 1})).minimize(no_loss());
  FlatParameters flat(table, op, heap);
  const Tensor& rows = table.find("rows")->value();
  const Tensor before = rows.detach().clone();
  const Tensor ids = torch::tensor({3}, kInt64), values = torch::full({1, 2}, 32768.0f);
  flat.update_flat(op, {torch::zeros({0})}, {}, {{ids, values / 0.0}}, 1);
  EXPECT_TRUE(rows.equal(before));
  EXPECT_EQ(flat.slots().at("SGD/loss_scale").item<double>(), 16384);
  flat.update_flat(op, {torch::zeros({0})}, {}, {{ids, values}}, 1);
  EXPECT_TRUE(torch::allclose(rows[3], before[3] - 2));
  EXPECT_TRUE(rows.slice(0, 0, 3).equal(before.slice(0, 0, 3)));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
