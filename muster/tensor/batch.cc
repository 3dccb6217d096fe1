#include "muster/tensor/batch.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {

Batch to_batch(const Element& element) {
  for (const Value& value : element.values()) {
    if (value.is_tensor() ? value.tensor().dim() > 0 : !value.strings().shape().empty()) continue;
    throw invalid_argument(
        "a model is given batches; the elements of this data set are single examples: " +
            element.describe(),
        "end it with batch(n): n examples for each replica of an Estimator, which also takes "
        "global_batch(n), and for all replicas together in strategy->distribute()");
  }
  if (element.structure().kind != Structure::Kind::kTuple) return {Features(element), Labels()};
  switch (element.size()) {
    case 1:
      return {Features(element.part(0)), Labels()};
    case 2:
      return {Features(element.part(0)), Labels(element.part(1))};
    case 3:
      return {Features(element.part(0)), Labels(element.part(1)), ElementView(element.part(2))};
    default:
      throw invalid_argument(
          fmt::format("a data set must give features, (features, labels), or (features, labels, "
                      "weights); its elements are {}",
                      element.describe()),
          "put several features into one dict: Element::dict({{\"a\", ...}, {\"b\", ...}})");
  }
}

void refuse_weights(const Batch& batch) {
  if (!batch.weights.defined()) return;
  throw invalid_argument(
      "a data set must give features, or (features, labels); its elements have a third part: " +
          batch.weights.element().describe(),
      "put several features into one dict: Element::dict({{\"a\", ...}, {\"b\", ...}}); weights "
      "of examples are a feature too, which the loss is given as sample_weight");
}

}  // namespace muster::inline v0_1
