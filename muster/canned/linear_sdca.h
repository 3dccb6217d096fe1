// Stochastic dual coordinate ascent, an optimizer for linear models alone, as
// tf.estimator.experimental.LinearSDCA: it needs no learning rate, and what it finds is exact.
// Thread safety: values.
//
//   LinearRegressor({.feature_columns = columns,
//                    .optimizer = LinearSDCA{.example_id_column = "id"}});
//
// It minimizes  sum_i s_i loss(w x_i, y_i) + l2 / 2 |w|^2 + l1 |w|_1,  where s_i are the weights of
// the examples, and the loss is log(1 + exp(-y w x)) of LinearClassifier, y being 1 or -1, and (w x
// - y)^2 / 2 of LinearRegressor. The bias is one of w. Each example has a dual variable a_i, and w
// is sum_i s_i a_i x_i / l2, made smaller by l1 / l2. A step takes the examples of its batch one
// after another, and sets the a_i of each to what is best for the dual problem while all others
// stay. Sources: Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods for
// regularized loss minimization", JMLR 2013; of several partitions Ma et al., "Adding vs. averaging
// in distributed primal-dual optimization", ICML 2015; of `adaptive` Csiba, Qu and Richtarik,
// "Stochastic dual coordinate ascent with adaptive probabilities", ICML 2015.
//   variables, beside those of the model: "linear/sdca/example_keys" and "linear/sdca/duals", a
//     table of all examples; "linear/sdca/<column>/weights" and "linear/sdca/bias_weights",
//     float64, before l1 makes them smaller. A run that continues has all it needs in these.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "muster/canned/optimizer_choice.h"

namespace muster::inline v0_1 {

struct LinearSDCA {
  // The feature that tells examples apart, texts or whole numbers, [rows] or [rows, 1]: an example
  // has the same in every epoch. Needed in training alone.
  std::string example_id_column{};
  // At least the number of replicas, which it is if less: into so many parts the examples of a step
  // are divided, whose steps do not see each other. More is slower, and safer.
  int64_t num_loss_partitions = 1;
  double symmetric_l1_regularization = 0;  // l1: 0 or more
  double symmetric_l2_regularization = 1;  // l2: more than 0
  // Whether a step draws examples from its batch, rather the ones that are far from their best.
  bool adaptive = false;
  // The table has room for at least so many different examples; where it is full, another one is an
  // InvalidArgument. It takes 24 bytes for each, in memory and in checkpoints.
  int64_t num_examples = 65536;
};

// The optimizer of a linear classifier or regressor: what OptimizerChoice takes, or LinearSDCA.
// Thread safety: an immutable value.
class LinearOptimizerChoice {
 public:
  LinearOptimizerChoice(OptimizerChoice choice)  // NOLINT(google-explicit-constructor)
      : choice_(std::move(choice)) {}
  LinearOptimizerChoice(std::string name)  // NOLINT(google-explicit-constructor)
      : choice_(OptimizerChoice(std::move(name))) {}
  LinearOptimizerChoice(const char* name)  // NOLINT(google-explicit-constructor)
      : choice_(OptimizerChoice(name)) {}
  LinearOptimizerChoice(optim::Optimizer optimizer)  // NOLINT(google-explicit-constructor)
      : choice_(OptimizerChoice(std::move(optimizer))) {}
  LinearOptimizerChoice(LinearSDCA sdca)  // NOLINT(google-explicit-constructor)
      : choice_(std::move(sdca)) {}

  // Gives nullptr for an optimizer of gradients.
  const LinearSDCA* sdca() const { return std::get_if<LinearSDCA>(&choice_); }
  // REQUIRES: sdca() is nullptr.
  const OptimizerChoice& gradients() const { return std::get<OptimizerChoice>(choice_); }

 private:
  std::variant<OptimizerChoice, LinearSDCA> choice_;
};

}  // namespace muster::inline v0_1
