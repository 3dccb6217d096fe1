#include "muster/tensor/batch.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {

Batch to_batch(const Element& element) {
  for (const Value& value : element.values()) {
    if (value.is_tensor() ? value.tensor().dim() > 0 : !value.strings().shape().empty()) continue;
    throw invalid_argument(
        "an input function must give batches; its elements are single examples: " +
            element.describe(),
        "end the data set with batch(n), n examples for each replica, or global_batch(n)");
  }
  if (element.structure().kind != Structure::Kind::kTuple) return {Features(element), Labels()};
  switch (element.size()) {
    case 1:
      return {Features(element.part(0)), Labels()};
    case 2:
      return {Features(element.part(0)), Labels(element.part(1))};
    default:
      throw invalid_argument(
          fmt::format(
              "an input function must give features, or (features, labels); its elements are {}",
              element.describe()),
          "put several features into one dict: Element::dict({{\"a\", ...}, {\"b\", ...}})");
  }
}

}  // namespace muster::inline v0_1
