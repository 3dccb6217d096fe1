#include "muster/distribute/internal/flat_gradients.h"

#include <gtest/gtest.h>

#include "muster/distribute/internal/test_variables.h"
#include "muster/layers/constraints.h"
#include "muster/layers/regularizers.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute::internal {
namespace {

using testing::heap;
using testing::no_loss;
using testing::spec_of;

void make_variables(VariableTable& table) {
  table.get_or_create(spec_of("plain", {3, 2}));
  for (const auto& [name, dtype] : {std::pair("penalized", kFloat32), {"wide", kFloat64}}) {
    VariableSpec spec = spec_of(name, {5, 2}, dtype);
    spec.regularizer = regularizers::l1_l2({.l1 = 0.1, .l2 = 0.2});
    table.get_or_create(spec);
  }
  VariableSpec normed = spec_of("normed", {7, 2});
  normed.constraint = constraints::max_norm(0.5);
  table.get_or_create(normed);
}

// As autograd may leave it: its numbers need not lie in their order.
Tensor gradient(const Variable& variable, int step) {
  const Tensor value = variable.value().detach();
  const Tensor numbers = torch::arange(1, value.numel() + 1, value.options()) * (step + 1);
  return numbers.view({value.size(1), value.size(0)}).t();
}

// Each variable is without a gradient in one step of three.
TEST(FlatGradients, UpdateAsGradientsDoWhereTheyAre) {
  for (const optim::Optimizer& optimizer :
       {optim::sgd({.learning_rate = 0.1, .momentum = 0.9}), optim::lamb(),
        optim::clip_by_global_norm(optim::adam(), 1), optim::loss_scaling(optim::sgd()),
        optim::exponential_moving_average(optim::adam())}) {
    VariableTable one(3), other(3);
    make_variables(one);
    make_variables(other);
    const auto op = optimizer.minimize(no_loss());
    FlatParameters flat(one, op, heap), in_place(other, op, heap);
    FlatGradients gradients(flat);
    for (int step = 0; step < 6; ++step) {
      for (size_t p = 0; p < flat.parameters().size(); ++p) {
        if ((static_cast<size_t>(step) + p) % 3 == 0) continue;
        for (const FlatParameters* each : {&flat, &in_place}) {
          const Variable& variable = *each->parameters()[p].variable;
          variable.value().mutable_grad() = gradient(variable, step);
        }
      }
      gradients.take();
      for (size_t p = 0; p < flat.parameters().size(); ++p) {
        EXPECT_EQ(gradients.used()[p], (static_cast<size_t>(step) + p) % 3 != 0);
        EXPECT_FALSE(flat.parameters()[p].variable->value().grad().defined());
      }
      flat.update_flat(op, gradients.gradients(), gradients.used(), {}, 0.5);
      in_place.update_in_place(op, 0.5);
    }
    for (const auto& variable : one.variables()) {
      EXPECT_TRUE(variable->value().equal(other.find(variable->name())->value()))
          << variable->name() << " by " << optimizer.describe();
    }
  }
}

}  // namespace
}  // namespace muster::inline v0_1::distribute::internal
