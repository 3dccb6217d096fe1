#include "muster/optim/reduce_on_plateau.h"

#include <gtest/gtest.h>

#include "muster/optim/internal/test_errors.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::optim {
namespace {

using testing::message_of;

// The factor after each of some values, of one update each.
std::vector<double> factors(const ReduceOnPlateauOptions& options,
                            const std::vector<double>& losses) {
  std::vector<double> all;
  Plateau plateau;
  for (const double loss : losses) {
    plateau = next_plateau(options, plateau, loss);
    all.push_back(plateau.factor);
  }
  return all;
}

// By hand, after the source of Keras's callback.
TEST(ReduceOnPlateau, ReducesAfterValuesThatAreNoBetter) {
  ReduceOnPlateauOptions options{.steps = 1, .factor = 0.5, .patience = 2, .min_delta = 0.1};
  EXPECT_EQ(factors(options, {1, 0.8, 0.75, 0.71, 0.6, 0.7, 0.7, 0.7, 0.7}),
            (std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125}));
  options.cooldown = 2;
  // The value in which the cooldown ends counts.
  EXPECT_EQ(factors(options, {1, 1, 1, 1, 1, 1, 1}),
            (std::vector<double>{1, 1, 0.5, 0.5, 0.5, 0.25, 0.25}));
  options.patience = 0;
  options.cooldown = 0;
  EXPECT_EQ(factors(options, {1, 1, 0.5, 1}), (std::vector<double>{1, 0.5, 0.5, 0.25}));
}

TEST(ReduceOnPlateau, AValueIsTheMeanOfItsUpdates) {
  const ReduceOnPlateauOptions options{.steps = 3, .factor = 0.5, .patience = 1, .min_delta = 0};
  EXPECT_EQ(factors(options, {1, 2, 3, 3, 3, -0.5, 9, 9, 9}),
            (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 0.5}));
}

TEST(ReduceOnPlateau, TheRateStaysAboveItsLeast) {
  const ReduceOnPlateauOptions options{.min_learning_rate = 0.01};
  EXPECT_EQ(reduced_rate(options, {.factor = 0.5}, 0.1), 0.05);
  EXPECT_EQ(reduced_rate(options, {.factor = 0.01}, 0.1), 0.01);
  EXPECT_EQ(reduced_rate(options, {.factor = 0.5}, 0.001), 0.001) << "a schedule may go below";
}

TEST(ReduceOnPlateau, TellsWhatItDoesAndRefusesWhatItCannot) {
  EXPECT_TRUE(reduce_on_plateau(sgd()).describe().ends_with(
      ", reduce_on_plateau(steps=1000, factor=0.1, patience=10, min_delta=0.0001, cooldown=0, "
      "min_learning_rate=0)"));
  const auto refused = [](const ReduceOnPlateauOptions& options) {
    return message_of([&] { reduce_on_plateau(sgd(), options); });
  };
  EXPECT_EQ(refused({.steps = 0}), "reduce_on_plateau: steps is 0 | steps must be at least 1");
  EXPECT_EQ(refused({.factor = 1}),
            "reduce_on_plateau: factor is 1 | factor must be above 0 and below 1");
  EXPECT_EQ(refused({.patience = -1}),
            "reduce_on_plateau: patience is -1 | patience must be at least 0");
  EXPECT_EQ(refused({.min_delta = -1}),
            "reduce_on_plateau: min_delta is -1 | min_delta must be finite and at least 0");
  EXPECT_EQ(refused({.cooldown = -1}),
            "reduce_on_plateau: cooldown is -1 | cooldown must be at least 0");
  EXPECT_EQ(refused({.min_learning_rate = -1}),
            "reduce_on_plateau: min_learning_rate is -1 | min_learning_rate must be finite and at "
            "least 0");
  EXPECT_EQ(message_of([] { reduce_on_plateau(reduce_on_plateau(sgd())); }),
            "reduce_on_plateau: the learning rate of the optimizer SGD is reduced already | ");
}

}  // namespace
}  // namespace muster::inline v0_1::optim
