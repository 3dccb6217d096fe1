#include "muster/serve/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace muster::inline v0_1::serve {

std::string ArrayInfo::describe() const {
  return fmt::format("{}[{}]", serve::to_string(type), fmt::join(shape, ", "));
}

std::string_view to_string(Verb verb) {
  switch (verb) {
    case Verb::kPredict:
      return "predict";
    case Verb::kClassify:
      return "classify";
    case Verb::kRegress:
      return "regress";
  }
  return "?";
}

bool Signature::joins() const {
  return std::ranges::all_of(outputs, [](const auto& output) {
    return !output.second.shape.empty() && output.second.shape.front() == -1;
  });
}

}  // namespace muster::inline v0_1::serve
