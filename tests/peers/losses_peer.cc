// tf.keras.losses: tools/peers/cases/losses.py.
#include <stdexcept>
#include <string>

#include "muster/losses/losses.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

// Calls a loss with options that take their own fields by `fill`.
struct LossCall {
  const PeerCase& peer;
  const Json options;
  const Tensor labels;
  const Tensor predictions;

  template <typename Options>
  Options options_of() const {
    Options made;
    const std::string reduction = peer.program.at("reduction");
    made.reduction = reduction == "none"  ? losses::Reduction::kNone
                     : reduction == "sum" ? losses::Reduction::kSum
                                          : losses::Reduction::kMean;
    const auto weight = peer.inputs.find("sample_weight");
    if (weight != peer.inputs.end()) made.sample_weight = weight->second.tensor();
    if constexpr (requires { made.axis; }) take(options, "axis", made.axis);
    if constexpr (requires { made.from_logits; }) take(options, "from_logits", made.from_logits);
    if constexpr (requires { made.label_smoothing; })
      take(options, "label_smoothing", made.label_smoothing);
    if constexpr (requires { made.gamma; }) take(options, "gamma", made.gamma);
    return made;
  }

  template <typename Options>
  Tensor plain(Tensor (*function)(const Tensor&, const Tensor&, const Options&)) const {
    return function(labels, predictions, options_of<Options>());
  }

  Tensor operator()(const std::string& name) const {
    if (name == "MeanAbsoluteError") return plain(losses::mean_absolute_error);
    if (name == "MeanSquaredError") return plain(losses::mean_squared_error);
    if (name == "MeanAbsolutePercentageError") return plain(losses::mean_absolute_percentage_error);
    if (name == "MeanSquaredLogarithmicError") return plain(losses::mean_squared_logarithmic_error);
    if (name == "LogCosh") return plain(losses::log_cosh);
    if (name == "Poisson") return plain(losses::poisson);
    if (name == "CosineSimilarity") return plain(losses::cosine_similarity);
    if (name == "KLDivergence") return plain(losses::kl_divergence);
    if (name == "Hinge") return plain(losses::hinge);
    if (name == "SquaredHinge") return plain(losses::squared_hinge);
    if (name == "CategoricalHinge") return plain(losses::categorical_hinge);
    if (name == "BinaryCrossentropy") return plain(losses::binary_crossentropy);
    if (name == "CategoricalCrossentropy") return plain(losses::categorical_crossentropy);
    return with_options_of_its_own(name);
  }

  Tensor with_options_of_its_own(const std::string& name) const {
    if (name == "Huber") {
      auto made = options_of<losses::HuberOptions>();
      take(options, "delta", made.delta);
      return losses::huber(labels, predictions, made);
    }
    if (name == "LogPoissonLoss") {
      auto made = options_of<losses::LogPoissonLossOptions>();
      take(options, "compute_full_loss", made.compute_full_loss);
      return losses::log_poisson_loss(labels, predictions, made);
    }
    if (name == "SparseCategoricalCrossentropy") {
      auto made = options_of<losses::SparseCategoricalCrossentropyOptions>();
      take(options, "ignore_class", made.ignore_class);
      return losses::sparse_categorical_crossentropy(labels, predictions, made);
    }
    if (name == "BinaryFocalCrossentropy") {
      auto made = options_of<losses::BinaryFocalCrossentropyOptions>();
      take(options, "apply_class_balancing", made.apply_class_balancing);
      take(options, "alpha", made.alpha);
      return losses::binary_focal_crossentropy(labels, predictions, made);
    }
    if (name == "CategoricalFocalCrossentropy") {
      auto made = options_of<losses::CategoricalFocalCrossentropyOptions>();
      if (options.contains("alpha")) {
        const Json& alpha = options.at("alpha");
        made.alpha = alpha.is_array() ? alpha.get<std::vector<double>>()
                                      : std::vector<double>{alpha.get<double>()};
      }
      return losses::categorical_focal_crossentropy(labels, predictions, made);
    }
    throw std::runtime_error("no loss is called " + name);
  }
};

PeerArrays run_loss(const PeerCase& a_case) {
  const Json options = a_case.program.value("options", Json::object());
  const Tensor labels = a_case.inputs.at("labels").tensor();
  const Tensor predictions = a_case.inputs.at("predictions").tensor().requires_grad_();
  Tensor loss;
  if (a_case.program.at("name") == "CTC") {
    losses::CtcLossOptions made;
    take(options, "from_logits", made.from_logits);
    take(options, "blank_index", made.blank_index);
    made.reduction = losses::Reduction::kNone;
    loss = losses::ctc_loss(labels, predictions, a_case.inputs.at("label_length").tensor(),
                            a_case.inputs.at("logit_length").tensor(), made);
  } else {
    loss = LossCall{a_case, options, labels, predictions}(a_case.program.at("name"));
  }
  (loss * a_case.inputs.at("upstream").tensor()).sum().backward();
  return {{"loss", PeerArray::of(loss)}, {"gradient", PeerArray::of(predictions.grad())}};
}

const PeerKind kLosses("losses", run_loss);

}  // namespace
}  // namespace muster::inline v0_1
