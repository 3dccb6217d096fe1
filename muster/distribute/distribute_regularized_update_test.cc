// Updates of variables with regularizers and constraints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "muster/base/error_of.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/internal/test_variables.h"
#include "muster/layers/constraints.h"
#include "muster/layers/regularizers.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::heap;
using testing::no_loss;
using testing::spec_of;

class RegularizedUpdateTest : public ::testing::Test {
 protected:
  // Makes "plain", "penalized" and "normed", of two columns.
  static void make(VariableTable& table) {
    table.get_or_create(spec_of("plain", {3, 2}));
    VariableSpec penalized = spec_of("penalized", {5, 2});
    penalized.regularizer = regularizers::l1_l2({.l1 = 0.1, .l2 = 0.2});
    table.get_or_create(penalized);
    VariableSpec normed = spec_of("normed", {7, 2});
    normed.constraint = constraints::max_norm(0.5);
    normed.regularizer = [](const Tensor& value) { return value.pow(4).sum(); };
    table.get_or_create(normed);
  }

  // A gradient of 1, 2, 3, ...
  static Tensor gradient(const FlatParameters::Parameter& parameter) {
    return torch::arange(1.0, parameter.elements + 1.0).view(parameter.variable->spec().shape);
  }

  // Returns the gradients in a buffer, for the used variables.
  static std::vector<Tensor> gradients(const FlatParameters& flat, const std::vector<bool>& used) {
    std::vector<Tensor> all{torch::zeros_like(flat.buffers()[0].weights)};
    for (size_t p = 0; p < used.size(); ++p) {
      const auto& parameter = flat.parameters()[p];
      if (!used[p]) continue;
      all[0]
          .slice(0, parameter.offset, parameter.offset + parameter.elements)
          .copy_(gradient(parameter).view({-1}));
    }
    return all;
  }
};

TEST_F(RegularizedUpdateTest, AddsDerivativesAndThenConstrains) {
  VariableTable table(3);
  make(table);
  const auto op = optim::sgd({.learning_rate = 0.5}).minimize(no_loss());
  FlatParameters flat(table, op, heap);
  const auto value = [&](const char* name) { return table.find(name)->value().detach(); };
  const Tensor plain = value("plain").clone(), w = value("penalized").clone(),
               n = value("normed").clone();
  flat.update_flat(op, gradients(flat, {true, true, true}), {true, true, true}, {}, 0.25);
  const auto g = [&](size_t p) { return 0.25 * gradient(flat.parameters()[p]); };
  EXPECT_TRUE(torch::allclose(value("plain"), plain - 0.5 * g(0)));
  EXPECT_TRUE(torch::allclose(value("penalized"), w - 0.5 * (g(1) + 0.1 * w.sign() + 0.4 * w)));
  const Tensor moved = n - 0.5 * (g(2) + 4 * n.pow(3));
  EXPECT_TRUE(torch::allclose(value("normed"), constraints::max_norm(0.5)(moved)));
  EXPECT_TRUE(torch::allclose(value("normed").square().sum(0).sqrt(), torch::full({2}, 0.5)));
}

TEST_F(RegularizedUpdateTest, InPlaceAndFlatGiveTheSameBits) {
  for (const optim::Optimizer& optimizer :
       {optim::adam(), optim::clip_by_global_norm(optim::sgd({.momentum = 0.9}), 1)}) {
    VariableTable one(3), other(3);
    make(one);
    make(other);
    const auto op = optimizer.minimize(no_loss());
    FlatParameters in_place(one, op, heap), flat(other, op, heap);
    for (int step = 0; step < 3; ++step) {
      // In the second step the weight with the penalty is not used.
      const std::vector<bool> used{true, step != 1, true};
      torch::NoGradGuard no_grad;
      for (size_t p = 0; p < used.size(); ++p) {
        const auto& parameter = in_place.parameters()[p];
        if (used[p]) parameter.variable->value().mutable_grad() = gradient(parameter);
      }
      in_place.update_in_place(op, 0.25);
      flat.update_flat(op, gradients(flat, used), used, {}, 0.25);
    }
    for (const auto& variable : one.variables()) {
      EXPECT_TRUE(variable->value().equal(other.find(variable->name())->value()))
          << variable->name() << ", " << optimizer.describe();
    }
  }
}

// The derivative of a regularizer does not belong to a scaled loss, and must not be divided by its
// scale.
TEST_F(RegularizedUpdateTest, ALossScaleChangesNoBits) {
  constexpr double kScale = 128;
  const auto sgd = optim::sgd({.learning_rate = 0.5});
  VariableTable one(3), other(3), third(3);
  for (VariableTable* table : {&one, &other, &third}) make(*table);
  const auto op = sgd.minimize(no_loss());
  const auto scaled_op =
      optim::loss_scaling(sgd, {.dynamic = false, .initial_scale = kScale}).minimize(no_loss());
  FlatParameters plain(one, op, heap), flat(other, scaled_op, heap),
      in_place(third, scaled_op, heap);
  const std::vector<bool> used(3, true);
  std::vector<Tensor> scaled = gradients(flat, used);
  scaled[0].mul_(kScale);
  plain.update_flat(op, gradients(plain, used), used, {}, 0.25);
  flat.update_flat(scaled_op, scaled, used, {}, 0.25);
  for (const auto& parameter : in_place.parameters())
    parameter.variable->value().mutable_grad() = gradient(parameter) * kScale;
  in_place.update_in_place(scaled_op, 0.25);
  for (const auto& variable : one.variables()) {
    for (const VariableTable* table : {&other, &third}) {
      EXPECT_TRUE(variable->value().equal(table->find(variable->name())->value()))
          << variable->name();
    }
  }
}

TEST_F(RegularizedUpdateTest, AStepThatIsLeftOutChangesNothing) {
  for (const bool in_place : {false, true}) {
    VariableTable table(3);
    make(table);
    const auto op = optim::loss_scaling(optim::sgd()).minimize(no_loss());
    FlatParameters flat(table, op, heap);
    std::vector<Tensor> before;
    for (const auto& variable : table.variables())
      before.push_back(variable->value().detach().clone());
    const std::vector<bool> used(3, true);
    std::vector<Tensor> infinite = gradients(flat, used);
    infinite[0][0] = std::numeric_limits<float>::infinity();
    if (in_place) {
      for (const auto& parameter : flat.parameters())
        parameter.variable->value().mutable_grad() = gradient(parameter) / 0;
      flat.update_in_place(op, 1);
    } else {
      flat.update_flat(op, infinite, used, {}, 1);
    }
    for (size_t v = 0; v < before.size(); ++v)
      EXPECT_TRUE(table.variables()[v]->value().equal(before[v])) << table.variables()[v]->name();
  }
}

TEST_F(RegularizedUpdateTest, ARegularizedVariableAlwaysHasAGradient) {
  VariableTable table(3);
  make(table);
  const auto op = optim::sgd({.learning_rate = 0.5}).minimize(no_loss());
  FlatParameters flat(table, op, heap);
  const auto value = [&](const char* name) { return table.find(name)->value().detach(); };
  const Tensor plain = value("plain").clone(), w = value("penalized").clone();
  flat.update_in_place(op, 1);
  EXPECT_TRUE(value("plain").equal(plain));
  EXPECT_TRUE(torch::allclose(value("penalized"), w - 0.5 * (0.1 * w.sign() + 0.4 * w)));
}

TEST_F(RegularizedUpdateTest, OfATableOnlyTheRowsThatWereUsedAreConstrained) {
  VariableTable table(3);
  VariableSpec spec = spec_of("table", {5, 2});
  spec.row_sparse = true;
  spec.constraint = constraints::unit_norm({1});
  Variable& rows = table.get_or_create(spec);
  const auto op = optim::sgd({.learning_rate = 1}).minimize(no_loss());
  FlatParameters flat(table, op, heap);
  const Tensor before = rows.value().detach().clone();
  rows.rows(torch::tensor({3, 1})).sum().backward();
  flat.tables().collect();
  flat.update_in_place(op, 1);
  const Tensor expected = constraints::unit_norm({1})(before - 1);
  for (const int64_t row : {0, 2, 4}) EXPECT_TRUE(rows.value()[row].equal(before[row])) << row;
  for (const int64_t row : {1, 3}) EXPECT_TRUE(torch::allclose(rows.value()[row], expected[row]));
}

TEST_F(RegularizedUpdateTest, ATableRefusesWhatConcernsAllItsRows) {
  VariableTable table(3);
  const auto message = [&](auto change) {
    VariableSpec spec = spec_of("table", {5, 2});
    spec.row_sparse = true;
    change(spec);
    const Error error = error_of([&] { table.get_or_create(spec); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.hint(), HasSubstr(".row_sparse = false"));
    return error.message();
  };
  EXPECT_THAT(message([](VariableSpec& spec) { spec.regularizer = regularizers::l2(); }),
              HasSubstr("table float32[5, 2] row-sparse has the regularizer l2(0.01)"));
  EXPECT_THAT(message([](VariableSpec& spec) { spec.constraint = constraints::max_norm(); }),
              HasSubstr("has the constraint max_norm(2, [0])"));
  EXPECT_THAT(message([](VariableSpec& spec) {
                spec.constraint = [](const Tensor& value) { return value; };
              }),
              HasSubstr("has the constraint a function"));
}

TEST_F(RegularizedUpdateTest, AConstraintThatDoesNotFitNamesTheVariable) {
  VariableTable table(3);
  VariableSpec spec = spec_of("dense/kernel", {3, 2});
  spec.constraint = constraints::max_norm(1, {5});
  table.get_or_create(spec);
  const auto op = optim::sgd({.learning_rate = 0.5}).minimize(no_loss());
  FlatParameters flat(table, op, heap);
  EXPECT_EQ(
      error_of([&] { flat.update_flat(op, gradients(flat, {true}), {true}, {}, 1); }).message(),
      "max_norm: axis is [5], of the weight float32[3, 2]; of the variable dense/kernel");
}

// Workers with other rules would drift apart, for each adds them by itself.
TEST_F(RegularizedUpdateTest, ReplicasCompareTheirRules) {
  VariableTable table(3);
  make(table);
  EXPECT_THAT(table.signature(),
              ElementsAre("plain float32[3, 2]", "penalized float32[5, 2] l1_l2(0.1, 0.2)",
                          "normed float32[7, 2] a function max_norm(0.5, [0])"));
}

}  // namespace
}  // namespace muster::inline v0_1::distribute
