// A metric for Model::compile(): a name of Keras's, or a function.
// Thread safety: immutable values.
//
//   model.compile({.optimizer = "adam", .loss = "mse", .metrics = {"mae"}});
//   const MetricChoice top_3("top_3", [](const Tensor& labels, const Tensor& outputs,
//                                        const Tensor& weights) {
//     return metrics::sparse_top_k_categorical_accuracy(labels, outputs, weights, {.k = 3});
//   });
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/better.h"
#include "muster/base/export.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::keras {

class MUSTER_EXPORT MetricChoice {
 public:
  // Measures a batch. `weights` has a weight for each example, or is undefined.
  using Function =
      std::function<Metric(const Tensor& labels, const Tensor& outputs, const Tensor& weights)>;

  // A metric of Keras by name: "accuracy" (or "acc"), which is the binary, categorical or sparse
  // one, depending on the shapes of labels and outputs; "auc", "precision", "mae", "mse",
  // "top_k..." and so on. A metric that needs probabilities gets them if the loss of the output
  // says that outputs are logits, where Keras would compare logits with 0.5. Throws InvalidArgument
  // for an unknown name, with the nearest one.
  MetricChoice(const char* name);         // NOLINT(google-explicit-constructor)
  MetricChoice(const std::string& name);  // NOLINT(google-explicit-constructor)
  // Your own metric, or one of metrics.h with options. It gets the outputs unchanged. Throws
  // InvalidArgument when the function is empty. `better`: which values are better, for callbacks
  // that monitor it; unset: as the metric's kind says, or else its name.
  MetricChoice(std::string name, Function function, Better better = Better::kUnknown);

  const std::string& name() const { return name_; }
  // Returns the constructor's value.
  Better better() const { return better_; }
  // `from_logits`: the loss of this output says that outputs are logits.
  Metric operator()(const Tensor& labels, const Tensor& outputs, const Tensor& weights,
                    bool from_logits) const;

  // Returns all names.
  static std::vector<std::string> names();

 private:
  std::string name_;
  Better better_ = Better::kUnknown;
  std::function<Metric(const Tensor&, const Tensor&, const Tensor&, bool)> function_;
};

}  // namespace muster::inline v0_1::keras
