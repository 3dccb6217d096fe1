#include "muster/train/late_error.h"

#include <mutex>
#include <utility>

namespace muster::inline v0_1 {
namespace {

std::mutex noting;
std::optional<Error> noted;

}  // namespace

void note_late_error(const Error& error) {
  const std::lock_guard lock(noting);
  if (!noted) noted = error;
}

std::optional<Error> take_late_error() {
  const std::lock_guard lock(noting);
  return std::exchange(noted, std::nullopt);
}

}  // namespace muster::inline v0_1
