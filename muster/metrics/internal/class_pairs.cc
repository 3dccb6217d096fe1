#include "muster/metrics/internal/class_pairs.h"

#include <fmt/format.h>

#include <vector>

#include "muster/metrics/internal/arguments.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::metrics::internal {

Metric of_class_pairs(const char* metric, std::shared_ptr<const MetricKind> kind,
                      const Tensor& labels, const Tensor& predictions, int64_t classes,
                      const Tensor& weights, AddPair add, std::optional<int64_t> ignored) {
  const Labeled given =
      in_one_shape(metric, labels, predictions, "both are class numbers: predictions.argmax(-1)");
  const Tensor fit =
      fit_weights(metric, weights, given.labels.sizes().vec(), "predictions", predictions);
  return Metric::deferred(kind, [=] {
    check_weights(metric, fit);
    std::vector<double> state = kind->empty;
    const Tensor truth =
        class_numbers(metric, "labels", given.labels, classes, ignored ? &*ignored : nullptr);
    const Tensor said = class_numbers(metric, "predictions", given.predictions, classes);
    Tensor each;
    if (fit.defined()) {
      each =
          weights_of_each(fit, given.labels.sizes().vec()).to(at::kCPU, at::kDouble).contiguous();
    }
    const int64_t* label = truth.data_ptr<int64_t>();
    const int64_t* prediction = said.data_ptr<int64_t>();
    const double* weight = each.defined() ? each.data_ptr<double>() : nullptr;
    for (int64_t i = 0; i < truth.numel(); ++i) {
      if (ignored && label[i] == *ignored) continue;
      add(state.data(), classes, label[i], prediction[i], weight != nullptr ? weight[i] : 1);
    }
    return state;
  });
}

void add_to_matrix(double* state, int64_t classes, int64_t label, int64_t prediction,
                   double weight) {
  state[label * classes + prediction] += weight;
}

std::string name_with_classes(const char* metric, int64_t classes) {
  check_at_least(metric, "num_classes", classes, 1);
  return fmt::format("{}({})", metric, classes);
}

}  // namespace muster::inline v0_1::metrics::internal
