// tf.keras.metrics over several batches: tools/peers/cases/metrics.py.
#include <stdexcept>
#include <string>

#include "muster/metrics/metrics.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

// One batch: labels are undefined if a metric takes none, and weights if there are none.
struct MetricCall {
  const Json options;
  const Tensor labels;
  const Tensor predictions;
  const Tensor weights;
  const Tensor normalizer;

  using Plain = Metric (*)(const Tensor&, const Tensor&, const Tensor&);
  template <typename Options>
  using Function = Metric (*)(const Tensor&, const Tensor&, const Tensor&, const Options&);

  Metric plain(Plain function) const { return function(labels, predictions, weights); }

  template <typename Options>
  Metric with(Function<Options> function) const {
    Options made;
    if constexpr (requires { made.threshold; }) take(options, "threshold", made.threshold);
    if constexpr (requires { made.thresholds; }) take(options, "thresholds", made.thresholds);
    if constexpr (requires { made.top_k; }) take(options, "top_k", made.top_k);
    if constexpr (requires { made.class_id; }) take(options, "class_id", made.class_id);
    if constexpr (requires { made.k; }) take(options, "k", made.k);
    if constexpr (requires { made.beta; }) take(options, "beta", made.beta);
    if constexpr (requires { made.axis; }) take(options, "axis", made.axis);
    if constexpr (requires { made.from_logits; }) take(options, "from_logits", made.from_logits);
    if constexpr (requires { made.label_smoothing; })
      take(options, "label_smoothing", made.label_smoothing);
    if constexpr (requires { made.ignore_class; }) take(options, "ignore_class", made.ignore_class);
    if constexpr (requires { made.average; }) made.average = average();
    return function(labels, predictions, weights, made);
  }

  metrics::Average average() const {
    const std::string name = options.value("average", "none");
    return name == "micro"      ? metrics::Average::kMicro
           : name == "macro"    ? metrics::Average::kMacro
           : name == "weighted" ? metrics::Average::kWeighted
                                : metrics::Average::kNone;
  }

  Metric operating_point(Metric (*function)(const Tensor&, const Tensor&, double, const Tensor&,
                                            const metrics::OperatingPointOptions&)) const {
    metrics::OperatingPointOptions made;
    take(options, "num_thresholds", made.num_thresholds);
    take(options, "class_id", made.class_id);
    return function(labels, predictions, options.at("at"), weights, made);
  }

  Metric area() const {
    metrics::AucOptions made;
    take(options, "num_thresholds", made.num_thresholds);
    take(options, "thresholds", made.thresholds);
    take(options, "multi_label", made.multi_label);
    take(options, "label_weights", made.label_weights);
    take(options, "from_logits", made.from_logits);
    if (options.value("curve", "ROC") == "PR") made.curve = metrics::Curve::kPr;
    const std::string method = options.value("summation_method", "interpolation");
    if (method == "minoring") made.summation_method = metrics::SummationMethod::kMinoring;
    if (method == "majoring") made.summation_method = metrics::SummationMethod::kMajoring;
    return metrics::auc(labels, predictions, weights, made);
  }

  Metric r2() const {
    metrics::R2ScoreOptions made;
    take(options, "num_regressors", made.num_regressors);
    if (options.contains("class_aggregation")) {
      const Json& how = options.at("class_aggregation");
      made.class_aggregation = how.is_null() ? metrics::ClassAggregation::kNone
                               : how == "uniform_average"
                                   ? metrics::ClassAggregation::kUniform
                                   : metrics::ClassAggregation::kVarianceWeighted;
    }
    return metrics::r2_score(labels, predictions, weights, made);
  }

  Metric operator()(const std::string& name) const {
    if (name == "Mean") return metrics::mean(predictions, weights);
    if (name == "Sum") return metrics::sum(predictions, weights);
    if (name == "MeanRelativeError")
      return metrics::mean_relative_error(labels, predictions, normalizer, weights);
    if (name == "MeanIoU") {
      metrics::MeanIouOptions made;
      take(options, "ignore_class", made.ignore_class);
      return metrics::mean_iou(labels, predictions, options.at("num_classes"), weights, made);
    }
    if (name == "R2Score") return r2();
    if (name == "AUC") return area();
    if (name == "PrecisionAtRecall") return operating_point(metrics::precision_at_recall);
    if (name == "RecallAtPrecision") return operating_point(metrics::recall_at_precision);
    if (name == "SensitivityAtSpecificity")
      return operating_point(metrics::sensitivity_at_specificity);
    if (name == "SpecificityAtSensitivity")
      return operating_point(metrics::specificity_at_sensitivity);
    return by_name(name);
  }

  Metric by_name(const std::string& name) const {
    if (name == "Accuracy") return plain(metrics::accuracy);
    if (name == "MeanAbsoluteError") return plain(metrics::mean_absolute_error);
    if (name == "MeanSquaredError") return plain(metrics::mean_squared_error);
    if (name == "RootMeanSquaredError") return plain(metrics::root_mean_squared_error);
    if (name == "MeanAbsolutePercentageError")
      return plain(metrics::mean_absolute_percentage_error);
    if (name == "MeanSquaredLogarithmicError")
      return plain(metrics::mean_squared_logarithmic_error);
    if (name == "LogCoshError") return plain(metrics::log_cosh);
    if (name == "Poisson") return plain(metrics::poisson);
    if (name == "KLDivergence") return plain(metrics::kl_divergence);
    if (name == "Hinge") return plain(metrics::hinge);
    if (name == "SquaredHinge") return plain(metrics::squared_hinge);
    if (name == "CategoricalHinge") return plain(metrics::categorical_hinge);
    if (name == "CategoricalAccuracy") return plain(metrics::categorical_accuracy);
    if (name == "SparseCategoricalAccuracy") return plain(metrics::sparse_categorical_accuracy);
    if (name == "CosineSimilarity") return with(metrics::cosine_similarity);
    if (name == "BinaryAccuracy") return with(metrics::binary_accuracy);
    if (name == "TruePositives") return with(metrics::true_positives);
    if (name == "FalsePositives") return with(metrics::false_positives);
    if (name == "TrueNegatives") return with(metrics::true_negatives);
    if (name == "FalseNegatives") return with(metrics::false_negatives);
    if (name == "Precision") return with(metrics::precision);
    if (name == "Recall") return with(metrics::recall);
    if (name == "BinaryCrossentropy") return with(metrics::binary_crossentropy);
    if (name == "CategoricalCrossentropy") return with(metrics::categorical_crossentropy);
    if (name == "SparseCategoricalCrossentropy")
      return with(metrics::sparse_categorical_crossentropy);
    if (name == "TopKCategoricalAccuracy") return with(metrics::top_k_categorical_accuracy);
    if (name == "SparseTopKCategoricalAccuracy")
      return with(metrics::sparse_top_k_categorical_accuracy);
    if (name == "F1Score") return with(metrics::f1_score);
    if (name == "FBetaScore") return with(metrics::f_beta_score);
    throw std::runtime_error("no metric is called " + name);
  }
};

PeerArrays run_metric(const PeerCase& a_case) {
  const auto input = [&](const std::string& name) {
    const auto found = a_case.inputs.find(name);
    return found == a_case.inputs.end() ? Tensor() : found->second.tensor();
  };
  const Json options = a_case.program.value("options", Json::object());
  Metric metric;
  for (int i = 0; a_case.inputs.count("predictions_" + std::to_string(i)) > 0; ++i) {
    const std::string batch = "_" + std::to_string(i);
    metric.merge(MetricCall{options, input("labels" + batch), input("predictions" + batch),
                            input("weights" + batch),
                            input("normalizer")}(a_case.program.at("name")));
  }
  // A peer gives all numbers of a metric that has several, as thresholds or classes.
  const PeerArray& expected = a_case.expected.at("result");
  if (expected.shape.empty()) return {{"result", PeerArray::of(metric.result())}};
  std::vector<double> numbers = metric.parts();
  if (numbers.empty()) numbers = {metric.result()};
  return {{"result", PeerArray::of(torch::tensor(numbers, kFloat64))}};
}

const PeerKind kMetrics("metrics", run_metric);

}  // namespace
}  // namespace muster::inline v0_1
