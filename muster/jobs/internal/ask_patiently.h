// Asks a target while a job is followed, for days maybe: a network or a controller that is away for
// a while must not end that. Thread safety: as the target.
#pragma once

#include <chrono>
#include <optional>
#include <thread>
#include <type_traits>

#include "muster/base/error.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs::internal {

// Returns the result of `ask`; nothing if the following was interrupted meanwhile. An error that
// may pass (Unavailable, Timeout) is thrown if it has lasted for ten minutes, or if nothing is
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
