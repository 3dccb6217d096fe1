// The optimizers and their formulas for one weight, computed in double from the documentation and
// independently of Muster. Tests share them. Thread safety: values.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim::testing {

// The trajectory of one weight.
struct Scalar {
  double w, u = 0, m = 0, v = 0, squares = 0;
};
using ScalarStep = std::function<void(Scalar&, double g, int step)>;

struct OptimizerCase {
  std::string label{};
  Optimizer optimizer;
  ScalarStep step{};
  double float_tolerance = 2e-6;
};

inline std::vector<OptimizerCase> sgd_cases() {
  return {{"sgd", sgd({.learning_rate = 0.05}), [](Scalar& s, double g, int) { s.w -= 0.05 * g; }},
          {"momentum", sgd({.learning_rate = 0.05, .momentum = 0.9}),
           [](Scalar& s, double g, int) {
             s.u = 0.9 * s.u - 0.05 * g;
             s.w += s.u;
           }},
          {"nesterov", sgd({.learning_rate = 0.05, .momentum = 0.9, .nesterov = true}),
           [](Scalar& s, double g, int) {
             s.u = 0.9 * s.u - 0.05 * g;
             s.w += 0.9 * s.u - 0.05 * g;
           }},
          {"nesterov without momentum", sgd({.learning_rate = 0.05, .nesterov = true}),
           [](Scalar& s, double g, int) { s.w -= 0.05 * g; }},
          // A rate that changes: 0.05 * 0.5^step.
          {"sgd with a schedule",
           sgd({.learning_rate = exponential_decay(
                    {.initial_learning_rate = 0.05, .decay_steps = 1, .decay_rate = 0.5})}),
           [](Scalar& s, double g, int step) { s.w -= 0.05 * std::pow(0.5, step) * g; }}};
}

// Adam's moments with beta_1 0.8 and beta_2 0.95, both corrected one by one.
struct Corrected {
  double m, v, root;
};
inline Corrected moments(Scalar& s, double g, int step) {
  s.m = 0.8 * s.m + 0.2 * g;
  s.v = 0.95 * s.v + 0.05 * g * g;
  const double correction = 1 - std::pow(0.95, step + 1);
  return {s.m / (1 - std::pow(0.8, step + 1)), s.v / correction, std::sqrt(correction)};
}

inline std::vector<OptimizerCase> adam_cases() {
  const AdamWOptions w{
      .learning_rate = 0.01, .weight_decay = 0.1, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3};
  AdamWOptions pytorch = w;
  pytorch.convention = Convention::kPyTorch;
  AdamWOptions largest = pytorch;
  largest.amsgrad = true;
  const AdamOptions plain{.learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3};
  AdamOptions amsgrad = plain;
  amsgrad.amsgrad = true;
  return {// The textbook form; Keras's epsilon is then epsilon / sqrt(1 - beta_2^t).
          {"adam", adam(plain),
           [](Scalar& s, double g, int step) {
             const Corrected c = moments(s, g, step);
             s.w -= 0.01 * c.m / (std::sqrt(c.v) + 1e-3 / c.root);
           }},
          {"amsgrad", adam(amsgrad),
           [](Scalar& s, double g, int step) {
             const Corrected c = moments(s, g, step);
             s.squares = std::max(s.squares, s.v);
             s.w -= 0.01 * c.m * c.root / (std::sqrt(s.squares) + 1e-3);
           }},
          {"adamw", adamw(w),
           [](Scalar& s, double g, int step) {
             s.w *= 1 - 0.01 * 0.1;
             const Corrected c = moments(s, g, step);
             s.w -= 0.01 * c.m / (std::sqrt(c.v) + 1e-3 / c.root);
           }},
          {"adamw, PyTorch", adamw(pytorch),
           [](Scalar& s, double g, int step) {
             s.w *= 1 - 0.01 * 0.1;
             const Corrected c = moments(s, g, step);
             s.w -= 0.01 * c.m / (std::sqrt(c.v) + 1e-3);
           }},
          {"adamw, amsgrad, PyTorch", adamw(largest), [](Scalar& s, double g, int step) {
             s.w *= 1 - 0.01 * 0.1;
             const Corrected c = moments(s, g, step);
             s.squares = std::max(s.squares, s.v);
             s.w -= 0.01 * c.m / (std::sqrt(s.squares) / c.root + 1e-3);
           }}};
}

inline std::vector<OptimizerCase> adam_kin_cases() {
  const AdamaxOptions largest{
      .learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-2};
  AdamaxOptions pytorch = largest;
  pytorch.convention = Convention::kPyTorch;
  return {{"adamax", adamax(largest),
           [](Scalar& s, double g, int step) {
             const Corrected c = moments(s, g, step);
             s.u = std::max(0.95 * s.u, std::abs(g));
             s.w -= 0.01 * c.m / (s.u + 1e-2);
           }},
          {"adamax, PyTorch", adamax(pytorch),
           [](Scalar& s, double g, int step) {
             const Corrected c = moments(s, g, step);
             s.u = std::max(0.95 * s.u, std::abs(g) + 1e-2);
             s.w -= 0.01 * c.m / s.u;
           }},
          // The product of momenta is made factor by factor.
          {"nadam", nadam({.learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 1e-3}),
           [](Scalar& s, double g, int step) {
             const Corrected c = moments(s, g, step);
             const auto mu = [](int t) { return 0.8 * (1 - 0.5 * std::pow(0.96, 0.004 * t)); };
             double product = 1;
             for (int t = 1; t <= step + 1; ++t) product *= mu(t);
             const double next = mu(step + 2);
             const double mean =
                 (1 - mu(step + 1)) * g / (1 - product) + next * s.m / (1 - product * next);
             s.w -= 0.01 * mean / (std::sqrt(c.v) + 1e-3);
           }},
          {"lion", lion({.learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95}),
           [](Scalar& s, double g, int) {
             const double direction = 0.8 * s.m + 0.2 * g;
             if (direction != 0) s.w -= std::copysign(0.01, direction);
             s.m = 0.95 * s.m + 0.05 * g;
           }}};
}

inline std::vector<OptimizerCase> rmsprop_cases() {
  RmspropOptions options{.learning_rate = 0.01, .rho = 0.8, .epsilon = 1e-2};
  std::vector<OptimizerCase> cases;
  for (const bool centered : {false, true}) {
    options.centered = centered;
    // The mean of squares, less the square of the mean.
    const auto d_of = [centered](Scalar& s, double g) {
      s.v = 0.8 * s.v + 0.2 * g * g;
      s.m = 0.8 * s.m + 0.2 * g;
      return centered ? s.v - s.m * s.m : s.v;
    };
    const std::string label = centered ? "rmsprop, centered" : "rmsprop";
    options.momentum = 0;
    cases.push_back(
        {label, rmsprop(options),
         [d_of](Scalar& s, double g, int) { s.w -= 0.01 * g / (std::sqrt(d_of(s, g)) + 1e-2); },
         2e-5});
    options.convention = Convention::kKeras;
    cases.push_back(
        {label + ", Keras", rmsprop(options),
         [d_of](Scalar& s, double g, int) { s.w -= 0.01 * g / std::sqrt(d_of(s, g) + 1e-2); },
         2e-5});
    options.convention = Convention::kTensorFlow;
    options.momentum = 0.7;
    cases.push_back({label + ", momentum", rmsprop(options),
                     [d_of](Scalar& s, double g, int) {
                       s.u = 0.7 * s.u + 0.01 * g / std::sqrt(d_of(s, g) + 1e-2);
                       s.w -= s.u;
                     },
                     2e-5});
    options.convention = Convention::kPyTorch;
    cases.push_back({label + ", PyTorch", rmsprop(options),
                     [d_of](Scalar& s, double g, int) {
                       s.u = 0.7 * s.u + g / (std::sqrt(d_of(s, g)) + 1e-2);
                       s.w -= 0.01 * s.u;
                     },
                     2e-5});
    options.convention = Convention::kTensorFlow;
  }
  return cases;
}

inline std::vector<OptimizerCase> ada_cases() {
  // An epsilon and a start that are seen.
  return {{"adagrad",
           adagrad({.learning_rate = 0.05, .initial_accumulator_value = 0.3, .epsilon = 1e-2}),
           [](Scalar& s, double g, int) {
             s.squares += g * g;
             s.w -= 0.05 * g / (std::sqrt(0.3 + s.squares) + 1e-2);
           }},
          {"adagrad, Keras",
           adagrad({.learning_rate = 0.05,
                    .initial_accumulator_value = 0.3,
                    .epsilon = 1e-2,
                    .convention = Convention::kKeras}),
           [](Scalar& s, double g, int) {
             s.squares += g * g;
             s.w -= 0.05 * g / std::sqrt(0.3 + s.squares + 1e-2);
           }},
          {"adadelta", adadelta({.learning_rate = 0.5, .rho = 0.8, .epsilon = 1e-2}),
           [](Scalar& s, double g, int) {
             s.v = 0.8 * s.v + 0.2 * g * g;
             const double change = std::sqrt(s.m + 1e-2) / std::sqrt(s.v + 1e-2) * g;
             s.m = 0.8 * s.m + 0.2 * change * change;
             s.w -= 0.5 * change;
           }}};
}

// By cases, as in McMahan's paper.
inline ScalarStep ftrl_step(double power, double l1, double l2, double shrinkage, double beta) {
  return [=](Scalar& s, double g, int step) {
    if (step == 0) s.squares = 0.3;
    const double before = std::pow(s.squares, power), after = std::pow(s.squares + g * g, power);
    s.m += g + 2 * shrinkage * s.w - (after - before) / 0.2 * s.w;
    s.squares += g * g;
    if (std::abs(s.m) <= l1) {
      s.w = 0;
    } else {
      s.w = ((s.m > 0 ? l1 : -l1) - s.m) / ((beta + after) / 0.2 + 2 * l2);
    }
  };
}

inline std::vector<OptimizerCase> ftrl_cases() {
  FtrlOptions options{.learning_rate = 0.2, .initial_accumulator_value = 0.3};
  std::vector<OptimizerCase> cases;
  cases.push_back({"ftrl", ftrl(options), ftrl_step(0.5, 0, 0, 0, 0), 2e-5});
  options.l1_regularization_strength = 0.4;
  options.l2_regularization_strength = 0.3;
  options.l2_shrinkage_regularization_strength = 0.1;
  options.beta = 0.25;
  cases.push_back({"ftrl, regularized", ftrl(options), ftrl_step(0.5, 0.4, 0.3, 0.1, 0.25), 2e-5});
  options.learning_rate_power = -0.7;
  cases.push_back({"ftrl, power", ftrl(options), ftrl_step(0.7, 0.4, 0.3, 0.1, 0.25), 2e-5});
  return cases;
}

// All that look at one weight at a time.
inline std::vector<OptimizerCase> optimizer_cases() {
  std::vector<OptimizerCase> all;
  for (const auto& cases :
       {sgd_cases(), adam_cases(), adam_kin_cases(), rmsprop_cases(), ada_cases(), ftrl_cases()}) {
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

}  // namespace muster::inline v0_1::optim::testing
