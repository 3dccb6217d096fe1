#include "muster/data/internal/element_row.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

Element element_as_row(const Element& element, const char* source) {
  return element.transform([&](const Value& value) -> Value {
    if (value.is_strings()) return Value::stack({value});
    if (!value.tensor().defined()) {
      throw invalid_argument(fmt::format("a {} gave an undefined tensor", source));
    }
    return value.tensor().detach().clone().unsqueeze(0);
  });
}

}  // namespace muster::inline v0_1::data::internal
