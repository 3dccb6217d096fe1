#include "muster/base/unknown_name.h"

#include <fmt/format.h>

#include "muster/base/nearest_hint.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {

Error unknown_name(const std::string& owner, const std::string& kind, const std::string& name,
                   const std::vector<std::string>& known, const std::string& otherwise) {
  return invalid_argument(fmt::format("{} has no {} '{}'; it has {}", owner, kind,
                                      printable_beginning(name), join_quoted(known)),
                          nearest_hint(name, known, otherwise));
}

}  // namespace muster::inline v0_1
