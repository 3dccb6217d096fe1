#include "muster/tensor/device_failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "muster/tensor/libtorch_error.h"

namespace muster::inline v0_1 {
namespace {

constexpr std::string_view kOutOfMemory = "RESOURCE_EXHAUSTED: ";
// Codes of absl::Status, which XLA's runtime writes before its messages. The other codes are
// about the arguments of an operation.
constexpr std::array<std::string_view, 7> kFailed{
    "UNAVAILABLE: ",       "INTERNAL: ",  "ABORTED: ", "DATA_LOSS: ",
    "DEADLINE_EXCEEDED: ", "CANCELLED: ", "UNKNOWN: "};

std::string message_of(const std::exception& exception) {
  if (const auto* of_libtorch = dynamic_cast<const c10::Error*>(&exception))
    return text_of(*of_libtorch);
  return exception.what();
}

}  // namespace

std::optional<Error> device_failure(Device device, const std::exception& exception) {
  if (!device.is_xla()) return std::nullopt;
  const std::string prefix = device.str() + " failed: ";
  if (const auto* made = dynamic_cast<const Error*>(&exception)) {
    if (made->message().starts_with(prefix)) return *made;
    return std::nullopt;
  }
  const std::string text = message_of(exception);
  const size_t memory = text.find(kOutOfMemory);
  if (memory != std::string::npos) {
    return internal_error(prefix + text.substr(memory),
                          "use a smaller batch, or more chips, which divide a batch");
  }
  for (const std::string_view code : kFailed) {
    const size_t at = text.find(code);
    if (at == std::string::npos) continue;
    return Error(ErrorKind::kUnavailable, prefix + text.substr(at),
                 "run the same command again to continue from the last checkpoint, or let `muster "
                 "run --restart=3` do so; if it fails again, use another machine");
  }
  return std::nullopt;
}

}  // namespace muster::inline v0_1
