#include "muster/base/class_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace muster::inline v0_1 {

std::string class_name(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  if (whole == nullptr) return {};
  const std::string name = whole.get();
  const size_t scope = name.rfind("::", name.find('<'));
  return scope == std::string::npos ? name : name.substr(scope + 2);
}

}  // namespace muster::inline v0_1
