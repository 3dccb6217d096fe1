#include "muster/base/nearest_hint.h"

#include "muster/base/nearest.h"
#include "muster/base/printable.h"

namespace muster::inline v0_1 {

std::string nearest_hint(std::string_view name, const std::vector<std::string>& known,
                         const std::string& otherwise) {
  const auto meant = nearest(name, known);
  return meant ? "did you mean '" + printable_beginning(*meant) + "'?" : otherwise;
}

}  // namespace muster::inline v0_1
