#include "muster/keras/metric_choice.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/metrics/metrics.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras {
namespace {

using Plain = Metric (*)(const Tensor&, const Tensor&, const Tensor&);
using Measure = std::function<Metric(const Tensor&, const Tensor&, const Tensor&, bool)>;

// One number for an example is a yes-or-no answer; otherwise there is one number a class.
bool one_output(const Tensor& outputs) { return outputs.dim() < 2 || outputs.size(-1) == 1; }

// Yes or no, for each place of the last axis.
Tensor yes(const Tensor& outputs, bool from_logits) {
  return from_logits ? outputs.sigmoid() : outputs;
}

// Labels that are the numbers of classes have no axis of classes, or one of length 1.
bool class_numbers(const Tensor& labels, const Tensor& outputs) {
  return labels.dim() < outputs.dim() || labels.size(-1) == 1;
}

// Keras's rule for the name "accuracy".
Metric accuracy(const Tensor& labels, const Tensor& outputs, const Tensor& weights,
                bool from_logits) {
  if (one_output(outputs))
    return metrics::binary_accuracy(labels, yes(outputs, from_logits), weights);
  return class_numbers(labels, outputs)
             ? metrics::sparse_categorical_accuracy(labels, outputs, weights)
             : metrics::categorical_accuracy(labels, outputs, weights);
}

Metric crossentropy(const Tensor& labels, const Tensor& outputs, const Tensor& weights,
                    bool from_logits) {
  if (one_output(outputs))
    return metrics::binary_crossentropy(labels, outputs, weights, {.from_logits = from_logits});
  if (!class_numbers(labels, outputs))
    return metrics::categorical_crossentropy(labels, outputs, weights,
                                             {.from_logits = from_logits});
  return metrics::sparse_categorical_crossentropy(labels, outputs, weights,
                                                  {.from_logits = from_logits});
}

template <typename Fn>
Measure of_yes(Fn fn) {
  return [fn](const Tensor& labels, const Tensor& outputs, const Tensor& weights,
              bool from_logits) { return fn(labels, yes(outputs, from_logits), weights); };
}

Measure plain(Plain fn) {
  return [fn](const Tensor& labels, const Tensor& outputs, const Tensor& weights,
              bool /*from_logits*/) { return fn(labels, outputs, weights); };
}

// The metric of a name; several names may be one metric.
const std::map<std::string, Measure>& measures() {
  static const auto* const all = [] {
    const auto top_k = [](const Tensor& labels, const Tensor& outputs, const Tensor& weights,
                          bool) {
      return class_numbers(labels, outputs)
                 ? metrics::sparse_top_k_categorical_accuracy(labels, outputs, weights)
                 : metrics::top_k_categorical_accuracy(labels, outputs, weights);
    };
    auto* const table = new std::map<std::string, Measure>{
        {"accuracy", accuracy},
        {"acc", accuracy},
        {"crossentropy", crossentropy},
        {"ce", crossentropy},
        {"top_k_categorical_accuracy", top_k},
        {"sparse_top_k_categorical_accuracy", top_k},
        {"categorical_accuracy", plain(metrics::categorical_accuracy)},
        {"sparse_categorical_accuracy", plain(metrics::sparse_categorical_accuracy)},
        {"hinge", plain(metrics::hinge)},
        {"squared_hinge", plain(metrics::squared_hinge)},
        {"categorical_hinge", plain(metrics::categorical_hinge)},
        {"mean_absolute_error", plain(metrics::mean_absolute_error)},
        {"mae", plain(metrics::mean_absolute_error)},
        {"mean_squared_error", plain(metrics::mean_squared_error)},
        {"mse", plain(metrics::mean_squared_error)},
        {"root_mean_squared_error", plain(metrics::root_mean_squared_error)},
        {"rmse", plain(metrics::root_mean_squared_error)},
        {"mean_absolute_percentage_error", plain(metrics::mean_absolute_percentage_error)},
        {"mape", plain(metrics::mean_absolute_percentage_error)},
        {"mean_squared_logarithmic_error", plain(metrics::mean_squared_logarithmic_error)},
        {"msle", plain(metrics::mean_squared_logarithmic_error)},
        {"log_cosh", plain(metrics::log_cosh)},
        {"logcosh", plain(metrics::log_cosh)},
        {"kl_divergence", plain(metrics::kl_divergence)},
        {"poisson", plain(metrics::poisson)}};
    table->emplace("binary_accuracy", of_yes([](const Tensor& y, const Tensor& p, const Tensor& w) {
                     return metrics::binary_accuracy(y, p, w);
                   }));
    table->emplace("auc", of_yes([](const Tensor& y, const Tensor& p, const Tensor& w) {
                     return metrics::auc(y, p, w);
                   }));
    table->emplace("precision", of_yes([](const Tensor& y, const Tensor& p, const Tensor& w) {
                     return metrics::precision(y, p, w);
                   }));
    table->emplace("recall", of_yes([](const Tensor& y, const Tensor& p, const Tensor& w) {
                     return metrics::recall(y, p, w);
                   }));
    table->emplace("cosine_similarity", [](const Tensor& y, const Tensor& p, const Tensor& w,
                                           bool) { return metrics::cosine_similarity(y, p, w); });
    table->emplace("r2_score", [](const Tensor& y, const Tensor& p, const Tensor& w, bool) {
      return metrics::r2_score(y, p, w);
    });
    const auto cross = [](auto fn) {
      return [fn](const Tensor& y, const Tensor& p, const Tensor& w, bool from_logits) {
        return fn(y, p, w, from_logits);
      };
    };
    table->emplace("binary_crossentropy",
                   cross([](const Tensor& y, const Tensor& p, const Tensor& w, bool logits) {
                     return metrics::binary_crossentropy(y, p, w, {.from_logits = logits});
                   }));
    table->emplace("categorical_crossentropy",
                   cross([](const Tensor& y, const Tensor& p, const Tensor& w, bool logits) {
                     return metrics::categorical_crossentropy(y, p, w, {.from_logits = logits});
                   }));
    table->emplace("sparse_categorical_crossentropy",
                   cross([](const Tensor& y, const Tensor& p, const Tensor& w, bool logits) {
                     return metrics::sparse_categorical_crossentropy(y, p, w,
                                                                     {.from_logits = logits});
                   }));
    return table;
  }();
  return *all;
}

Measure measure_of(const std::string& name) {
  const auto found = measures().find(name);
  if (found != measures().end()) return found->second;
  throw unknown_name("keras", "metric", name, MetricChoice::names(),
                     "give compile() a function: keras::MetricChoice(\"mine\", [](const Tensor& "
                     "labels, const Tensor& outputs, const Tensor& weights) { ... })");
}

}  // namespace

MetricChoice::MetricChoice(const char* name) : MetricChoice(std::string(name)) {}
// "acc" is shown under this name, as in Keras.
MetricChoice::MetricChoice(const std::string& name) : name_(name), function_(measure_of(name)) {}

MetricChoice::MetricChoice(std::string name, Function function, Better better)
    : name_(std::move(name)), better_(better) {
  if (!function) {
    throw invalid_argument(fmt::format("the metric \"{}\" has no function", name_),
                           "give it one of (labels, outputs, weights)");
  }
  function_ = [function = std::move(function)](const Tensor& labels, const Tensor& outputs,
                                               const Tensor& weights, bool /*from_logits*/) {
    return function(labels, outputs, weights);
  };
}

Metric MetricChoice::operator()(const Tensor& labels, const Tensor& outputs, const Tensor& weights,
                                bool from_logits) const {
  return function_(labels, outputs, weights, from_logits);
}

std::vector<std::string> MetricChoice::names() {
  std::vector<std::string> names;
  for (const auto& [name, measure] : measures()) names.push_back(name);
  return names;
}

}  // namespace muster::inline v0_1::keras
