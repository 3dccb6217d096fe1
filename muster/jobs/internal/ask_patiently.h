// Asks a target while a job is followed, for days maybe: that a network or a controller is away for
// a while is no reason to end that. Thread safety: as what it is asked.
#pragma once

#include <chrono>
#include <optional>
#include <thread>
#include <type_traits>

#include "muster/base/error.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs::internal {

// Returns what `ask` returns; nothing when the following was interrupted meanwhile. An error that
// may pass (Unavailable, Timeout) is thrown when it has lasted for ten minutes, or when nothing is
// followed; others are thrown at once.
template <typename Ask>
auto ask_patiently(const LogOptions& options, const Ask& ask)
    -> std::optional<std::invoke_result_t<Ask>> {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::minutes kMostAway{10};
  constexpr std::chrono::seconds kPause{1};
  const auto end = Clock::now() + kMostAway;
  for (;;) {
    try {
      return ask();
    } catch (const Error& error) {
      const bool may_pass =
          error.kind() == ErrorKind::kUnavailable || error.kind() == ErrorKind::kTimeout;
      if (!options.follow || !may_pass || Clock::now() > end) throw;
    }
    for (const auto next = Clock::now() + kPause; Clock::now() < next;) {
      if (options.interrupted()) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
}

}  // namespace muster::inline v0_1::jobs::internal
