#include "muster/canned/rnn.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/canned/internal/error_context.h"
#include "muster/canned/internal/head_of.h"
#include "muster/canned/internal/rnn_part.h"
#include "muster/heads/sequential_head.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr double kRnnRate = 0.05;
constexpr double kRnnClipNorm = 5;

optim::Optimizer rnn_optimizer(const std::string& estimator, const OptimizerChoice& choice) {
  const optim::Optimizer optimizer = choice.make(estimator, kRnnRate);
  return choice.is_name() ? optim::clip_by_norm(optimizer, kRnnClipNorm) : optimizer;
}

void check_sequences(const std::string& estimator, const Head& head, bool return_sequences) {
  const bool sequential = !head.rule().sequence_mask_key().empty();
  if (sequential == return_sequences) return;
  std::string title = head.rule().kind();
  if (!head.name().empty()) title += " \"" + head.name() + "\"";
  throw invalid_argument(
      fmt::format("{}: return_sequences is {}, and the head, {}, is {} of sequences", estimator,
                  return_sequences, title, sequential ? "one" : "none"),
      "with return_sequences, and only then, give SequentialHeadWrapper(head)");
}

// The features with the mask, unless they have one of that name.
Features with_mask(const Features& features, const std::string& key, const Tensor& mask) {
  if (features.contains(key)) return features;
  const Element& element = features.element();
  std::vector<std::pair<std::string, Element>> entries{{key, Element(mask)}};
  for (const std::string& name : features.keys()) entries.emplace_back(name, element.at(name));
  return Features(Element::dict(std::move(entries)));
}

template <typename Options>
Estimator make_rnn(const std::string& estimator, const Head& head, const Options& options,
                   RunConfig config) {
  check_sequences(estimator, head, options.return_sequences);
  const internal::RnnPart rnn(estimator,
                              {.sequence_feature_columns = options.sequence_feature_columns,
                               .context_feature_columns = options.context_feature_columns,
                               .units = options.units,
                               .cell_type = options.cell_type,
                               .rnn_cell_fn = options.rnn_cell_fn,
                               .return_sequences = options.return_sequences},
                              head.logits_dimension());
  const ModelFn model = [head, rnn, optimizer = rnn_optimizer(estimator, options.optimizer)](
                            const Features& features, const Labels& labels, Mode,
                            ModelContext& context) {
    const auto [logits, mask] = rnn(features, context);
    const std::string key = head.rule().sequence_mask_key();
    return head.create_estimator_spec(context,
                                      key.empty() ? features : with_mask(features, key, mask),
                                      labels, logits, {.optimizer = optimizer});
  };
  return Estimator(model, std::move(config));
}

// The head of steps where the options ask for these, else `head` itself.
template <typename Options>
Head head_of_steps(const std::string& estimator, const Head& head, const Options& options) {
  if (!options.return_sequences) return head;
  std::vector<std::string> weights;
  if (!options.weight_column.empty()) weights.push_back(options.weight_column.key());
  return internal::with_error_context(estimator, [&] {
    return SequentialHeadWrapper(
        head, {.sequence_length_mask = options.sequence_mask, .feature_columns = weights});
  });
}

}  // namespace

Estimator RNNEstimator(const Head& head, const RNNEstimatorOptions& options, RunConfig config) {
  return make_rnn("RNNEstimator", head, options, std::move(config));
}

Estimator RNNClassifier(const RNNClassifierOptions& options, RunConfig config) {
  constexpr const char* kName = "RNNClassifier";
  const Head head = internal::classifier_head(kName, options.n_classes, options.weight_column,
                                              options.label_vocabulary, options.loss_reduction);
  return make_rnn(kName, head_of_steps(kName, head, options), options, std::move(config));
}

Estimator RNNRegressor(const RNNRegressorOptions& options, RunConfig config) {
  constexpr const char* kName = "RNNRegressor";
  const Head head = internal::regressor_head(kName, options.label_dimension, options.weight_column,
                                             options.loss_reduction);
  return make_rnn(kName, head_of_steps(kName, head, options), options, std::move(config));
}

}  // namespace muster::inline v0_1
