// The loss for Model::compile(): a name of Keras's, one of the functions below with options, or
// your own function. Thread safety: immutable values.
//
//   model.compile({.optimizer = "adam", .loss = "mse"});
//   model.compile({.optimizer = "adam",
//                  .loss = keras::SparseCategoricalCrossentropy({.from_logits = true})});
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/losses/losses.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::keras {

class MUSTER_EXPORT Loss {
 public:
  // Returns the loss of a batch, a scalar: the mean over its examples, or their sum.
  // `sample_weight` has a weight for each example, or is undefined.
  using Function = std::function<Tensor(const Tensor& labels, const Tensor& outputs,
                                        const Tensor& sample_weight)>;

  // No loss, for an output without a target.
  Loss() = default;
  // A loss of Keras by its name, with Keras's defaults: "mse", "sparse_categorical_crossentropy" of
  // probabilities. Throws InvalidArgument for an unknown name, with the nearest one.
  Loss(const char* name);         // NOLINT(google-explicit-constructor)
  Loss(const std::string& name);  // NOLINT(google-explicit-constructor)
  // Your own function. Throws InvalidArgument when it is empty.
  Loss(std::string name, Function function, losses::Reduction reduction = losses::Reduction::kMean);
  // For the functions below: `from_logits` tells metrics how to read the outputs.
  Loss(std::string name, Function function, losses::Reduction reduction, bool from_logits);

  bool defined() const { return static_cast<bool>(function_); }
  const std::string& name() const { return name_; }
  losses::Reduction reduction() const { return reduction_; }
  // Whether outputs are logits, not probabilities.
  bool from_logits() const { return from_logits_; }
  // Throws the errors of the function, and InvalidArgument if it does not return a scalar.
  Tensor operator()(const Tensor& labels, const Tensor& outputs, const Tensor& sample_weight) const;

  // Returns the names of losses, including Keras's short ones: "mae", "mean_absolute_error", ...
  static std::vector<std::string> names();

 private:
  std::string name_;
  Function function_;
  losses::Reduction reduction_ = losses::Reduction::kMean;
  bool from_logits_ = false;
};

// Keras's classes, with the options of muster/losses; fit() provides the weights, so do not set
// `sample_weight`. A reduction of kNone is an InvalidArgument.
MUSTER_EXPORT Loss BinaryCrossentropy(losses::BinaryCrossentropyOptions options = {});
MUSTER_EXPORT Loss BinaryFocalCrossentropy(losses::BinaryFocalCrossentropyOptions options = {});
MUSTER_EXPORT Loss CategoricalCrossentropy(losses::CategoricalCrossentropyOptions options = {});
MUSTER_EXPORT Loss
CategoricalFocalCrossentropy(losses::CategoricalFocalCrossentropyOptions options = {});
MUSTER_EXPORT Loss
SparseCategoricalCrossentropy(losses::SparseCategoricalCrossentropyOptions options = {});
MUSTER_EXPORT Loss CategoricalHinge(losses::CategoricalHingeOptions options = {});
MUSTER_EXPORT Loss CosineSimilarity(losses::CosineSimilarityOptions options = {});
MUSTER_EXPORT Loss Hinge(losses::HingeOptions options = {});
MUSTER_EXPORT Loss Huber(losses::HuberOptions options = {});
MUSTER_EXPORT Loss KLDivergence(losses::KlDivergenceOptions options = {});
MUSTER_EXPORT Loss LogCosh(losses::LogCoshOptions options = {});
MUSTER_EXPORT Loss MeanAbsoluteError(losses::MeanAbsoluteErrorOptions options = {});
MUSTER_EXPORT Loss
MeanAbsolutePercentageError(losses::MeanAbsolutePercentageErrorOptions options = {});
MUSTER_EXPORT Loss MeanSquaredError(losses::MeanSquaredErrorOptions options = {});
MUSTER_EXPORT Loss
MeanSquaredLogarithmicError(losses::MeanSquaredLogarithmicErrorOptions options = {});
MUSTER_EXPORT Loss Poisson(losses::PoissonOptions options = {});
MUSTER_EXPORT Loss SquaredHinge(losses::SquaredHingeOptions options = {});

}  // namespace muster::inline v0_1::keras
