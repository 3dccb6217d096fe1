#include "muster/base/foreign_error.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <typeinfo>

namespace muster::inline v0_1 {

Error foreign_error(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return internal_error("out of memory", "use a smaller batch or a machine with more memory");
  }
  const char* mangled = typeid(error).name();
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &status), &std::free);
  return internal_error(
      fmt::format("{} was thrown: {}", status == 0 ? name.get() : mangled, error.what()));
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return foreign_error(error);
  } catch (...) {
    return unknown_error();
  }
}

Error unknown_error() { return internal_error("an exception of an unknown type was thrown"); }

}  // namespace muster::inline v0_1
