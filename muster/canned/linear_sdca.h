// Stochastic dual coordinate ascent, an optimizer only for linear models, as
// tf.estimator.experimental.LinearSDCA: it needs no learning rate, and converges to the exact
// solution.
// Thread safety: values.
//
//   LinearRegressor({.feature_columns = columns,
//                    .optimizer = LinearSDCA{.example_id_column = "id"}});
//
// It minimizes  sum_i s_i loss(w x_i, y_i) + l2 / 2 |w|^2 + l1 |w|_1,  where s_i are the weights of
// the examples. The loss is log(1 + exp(-y w x)) for LinearClassifier, with y 1 or -1, and (w x -
// y)^2 / 2 for LinearRegressor. The bias is one of the weights w. Each example has a dual variable
// a_i, and w is sum_i s_i a_i x_i / l2, shrunk by l1 / l2. A step takes the examples of its batch
// one after another, and sets each a_i to the best value for the dual problem while all others are
// fixed. Sources: Shalev-Shwartz and Zhang, "Stochastic dual coordinate ascent methods for
// regularized loss minimization", JMLR 2013; for several partitions Ma et al., "Adding vs.
// averaging in distributed primal-dual optimization", ICML 2015; for `adaptive` Csiba, Qu and
// Richtarik, "Stochastic dual coordinate ascent with adaptive probabilities", ICML 2015.
//   variables, in addition to the model's: "linear/sdca/example_keys" and "linear/sdca/duals", a
//     table of all examples; "linear/sdca/<column>/weights" and "linear/sdca/bias_weights",
//     float64, before l1 shrinks them. A run that continues needs only these.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "muster/canned/optimizer_choice.h"

namespace muster::inline v0_1 {

struct LinearSDCA {
  // The feature that identifies an example, texts or whole numbers, [rows] or [rows, 1]; an example
  // has the same id in every epoch. Needed only in training.
  std::string example_id_column{};
  // The number of parts into which the examples of a step are divided; steps of different parts do
  // not see each other. At least the number of replicas, which is used if it is less. More parts
  // are slower, and safer.
  int64_t num_loss_partitions = 1;
  double symmetric_l1_regularization = 0;  // l1: 0 or more
  double symmetric_l2_regularization = 1;  // l2: more than 0
  // Whether a step draws examples from its batch, preferring those far from their optimum.
  bool adaptive = false;
  // The table has room for at least this many different examples; an example beyond that is an
  // InvalidArgument. It needs 24 bytes for each, in memory and in checkpoints.
  int64_t num_examples = 65536;
};

// The optimizer of a linear classifier or regressor: an OptimizerChoice, or LinearSDCA. Thread
// safety: an immutable value.
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

  // Returns nullptr for an optimizer of gradients.
  const LinearSDCA* sdca() const { return std::get_if<LinearSDCA>(&choice_); }
  // REQUIRES: sdca() is nullptr.
  const OptimizerChoice& gradients() const { return std::get<OptimizerChoice>(choice_); }

 private:
  std::variant<OptimizerChoice, LinearSDCA> choice_;
};

}  // namespace muster::inline v0_1
