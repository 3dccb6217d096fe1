#include "muster/train/input_fn.h"

#include "muster/base/error.h"

namespace muster {

Batch to_batch(const Element& element) {
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

}  // namespace muster
