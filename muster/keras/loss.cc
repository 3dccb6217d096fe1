#include "muster/keras/loss.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"

namespace muster::inline v0_1::keras {
namespace {

// Binds options to one of the losses of muster/losses.
template <typename Options>
Loss bound(const char* name, Tensor (*loss)(const Tensor&, const Tensor&, const Options&),
           Options options) {
  if (options.reduction == losses::Reduction::kNone) {
    throw invalid_argument(fmt::format("{}: the reduction kNone gives no scalar", name),
                           "take kMean or kSum: a step needs one number");
  }
  bool from_logits = false;
  if constexpr (requires { options.from_logits; }) from_logits = options.from_logits;
  const losses::Reduction reduction = options.reduction;
  return Loss(
      name,
      [loss, options = std::move(options)](const Tensor& labels, const Tensor& outputs,
                                           const Tensor& sample_weight) {
        Options weighted = options;
        weighted.sample_weight = sample_weight;
        return loss(labels, outputs, weighted);
      },
      reduction, from_logits);
}

using MakeLoss = Loss (*)();

const std::map<std::string, MakeLoss>& loss_makers() {
  static const auto* const all = new std::map<std::string, MakeLoss>{
      {"binary_crossentropy", [] { return BinaryCrossentropy(); }},
      {"bce", [] { return BinaryCrossentropy(); }},
      {"binary_focal_crossentropy", [] { return BinaryFocalCrossentropy(); }},
      {"categorical_crossentropy", [] { return CategoricalCrossentropy(); }},
      {"categorical_focal_crossentropy", [] { return CategoricalFocalCrossentropy(); }},
      {"sparse_categorical_crossentropy", [] { return SparseCategoricalCrossentropy(); }},
      {"categorical_hinge", [] { return CategoricalHinge(); }},
      {"cosine_similarity", [] { return CosineSimilarity(); }},
      {"hinge", [] { return Hinge(); }},
      {"huber", [] { return Huber(); }},
      {"huber_loss", [] { return Huber(); }},
      {"kl_divergence", [] { return KLDivergence(); }},
      {"kullback_leibler_divergence", [] { return KLDivergence(); }},
      {"kld", [] { return KLDivergence(); }},
      {"log_cosh", [] { return LogCosh(); }},
      {"logcosh", [] { return LogCosh(); }},
      {"mean_absolute_error", [] { return MeanAbsoluteError(); }},
      {"mae", [] { return MeanAbsoluteError(); }},
      {"mean_absolute_percentage_error", [] { return MeanAbsolutePercentageError(); }},
      {"mape", [] { return MeanAbsolutePercentageError(); }},
      {"mean_squared_error", [] { return MeanSquaredError(); }},
      {"mse", [] { return MeanSquaredError(); }},
      {"mean_squared_logarithmic_error", [] { return MeanSquaredLogarithmicError(); }},
      {"msle", [] { return MeanSquaredLogarithmicError(); }},
      {"poisson", [] { return Poisson(); }},
      {"squared_hinge", [] { return SquaredHinge(); }}};
  return *all;
}

Loss named(const std::string& name) {
  const auto found = loss_makers().find(name);
  if (found != loss_makers().end()) return found->second();
  throw unknown_name("keras", "loss", name, Loss::names(),
                     "give compile() a function: keras::Loss(\"mine\", [](const Tensor& labels, "
                     "const Tensor& outputs, const Tensor& sample_weight) { ... })");
}

}  // namespace

Loss::Loss(const char* name) : Loss(named(name)) {}
Loss::Loss(const std::string& name) : Loss(named(name)) {}

Loss::Loss(std::string name, Function function, losses::Reduction reduction)
    : Loss(std::move(name), std::move(function), reduction, /*from_logits=*/false) {}

Loss::Loss(std::string name, Function function, losses::Reduction reduction, bool from_logits)
    : name_(std::move(name)),
      function_(std::move(function)),
      reduction_(reduction),
      from_logits_(from_logits) {
  if (!function_) {
    throw invalid_argument(fmt::format("the loss \"{}\" has no function", name_),
                           "give it one of (labels, outputs, sample_weight)");
  }
}

Tensor Loss::operator()(const Tensor& labels, const Tensor& outputs,
                        const Tensor& sample_weight) const {
  Tensor loss = function_(labels, outputs, sample_weight);
  if (loss.defined() && loss.numel() == 1) return loss.dim() == 0 ? loss : loss.reshape({});
  throw invalid_argument(
      fmt::format("the loss \"{}\" gave {} for labels {} and outputs {}", name_,
                  loss.defined() ? describe(loss) : "no tensor", describe(labels),
                  describe(outputs)),
      "a loss gives one number for the batch: its mean, or its sum with Reduction::kSum");
}

std::vector<std::string> Loss::names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : loss_makers()) names.push_back(name);
  return names;
}

Loss BinaryCrossentropy(losses::BinaryCrossentropyOptions options) {
  return bound("binary_crossentropy", &losses::binary_crossentropy, std::move(options));
}
Loss BinaryFocalCrossentropy(losses::BinaryFocalCrossentropyOptions options) {
  return bound("binary_focal_crossentropy", &losses::binary_focal_crossentropy, std::move(options));
}
Loss CategoricalCrossentropy(losses::CategoricalCrossentropyOptions options) {
  return bound("categorical_crossentropy", &losses::categorical_crossentropy, std::move(options));
}
Loss CategoricalFocalCrossentropy(losses::CategoricalFocalCrossentropyOptions options) {
  return bound("categorical_focal_crossentropy", &losses::categorical_focal_crossentropy,
               std::move(options));
}
Loss SparseCategoricalCrossentropy(losses::SparseCategoricalCrossentropyOptions options) {
  return bound("sparse_categorical_crossentropy", &losses::sparse_categorical_crossentropy,
               std::move(options));
}
Loss CategoricalHinge(losses::CategoricalHingeOptions options) {
  return bound("categorical_hinge", &losses::categorical_hinge, std::move(options));
}
Loss CosineSimilarity(losses::CosineSimilarityOptions options) {
  return bound("cosine_similarity", &losses::cosine_similarity, std::move(options));
}
Loss Hinge(losses::HingeOptions options) {
  return bound("hinge", &losses::hinge, std::move(options));
}
Loss Huber(losses::HuberOptions options) {
  return bound("huber", &losses::huber, std::move(options));
}
Loss KLDivergence(losses::KlDivergenceOptions options) {
  return bound("kl_divergence", &losses::kl_divergence, std::move(options));
}
Loss LogCosh(losses::LogCoshOptions options) {
  return bound("log_cosh", &losses::log_cosh, std::move(options));
}
Loss MeanAbsoluteError(losses::MeanAbsoluteErrorOptions options) {
  return bound("mean_absolute_error", &losses::mean_absolute_error, std::move(options));
}
Loss MeanAbsolutePercentageError(losses::MeanAbsolutePercentageErrorOptions options) {
  return bound("mean_absolute_percentage_error", &losses::mean_absolute_percentage_error,
               std::move(options));
}
Loss MeanSquaredError(losses::MeanSquaredErrorOptions options) {
  return bound("mean_squared_error", &losses::mean_squared_error, std::move(options));
}
Loss MeanSquaredLogarithmicError(losses::MeanSquaredLogarithmicErrorOptions options) {
  return bound("mean_squared_logarithmic_error", &losses::mean_squared_logarithmic_error,
               std::move(options));
}
Loss Poisson(losses::PoissonOptions options) {
  return bound("poisson", &losses::poisson, std::move(options));
}
Loss SquaredHinge(losses::SquaredHingeOptions options) {
  return bound("squared_hinge", &losses::squared_hinge, std::move(options));
}

}  // namespace muster::inline v0_1::keras
