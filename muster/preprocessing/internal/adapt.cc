#include "muster/preprocessing/internal/adapt.h"

#include <fmt/format.h>

#include <memory>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

void for_each_value(
    const char* layer, const Dataset& batches,
    const std::function<void(const Value& value, const std::string& where)>& learn) {
  const torch::NoGradGuard no_grad;
  if (batches.cardinality() == kInfinite) {
    throw invalid_argument(
        fmt::format("{}.adapt: the data has no end: {}", layer, batches.describe()),
        "remove repeat(), or put take() after it");
  }
  const std::unique_ptr<Iterator> iterator = batches.iterator();
  for (int64_t i = 0; const std::optional<Element> element = iterator->next(); ++i) {
    const std::string where = fmt::format("{}.adapt: element {}", layer, i);
    if (!element->is_leaf()) {
      throw invalid_argument(
          fmt::format("{} is {}, not one value", where, element->describe()),
          "take one out: dataset.map([](const Element& e) { return e.at(\"age\"); })");
    }
    learn(element->value(), where);
  }
}

Tensor finite_doubles(const Tensor& values, const std::string& where) {
  if (!values.defined()) throw invalid_argument(where + " is an undefined tensor");
  Tensor doubles = values.detach().to(at::kCPU, kFloat64).contiguous();
  if (!at::isfinite(doubles).all().item<bool>()) {
    throw invalid_argument(
        fmt::format("{}, {}, has a number that is not finite", where, describe(values)),
        "replace or filter() what is missing before");
  }
  return doubles;
}

}  // namespace muster::inline v0_1::internal
