// The terms in which tasks and their coordinator communicate: the sender, and how a call is
// answered. Values; net sends their fields.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "muster/base/error.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::plan {

// A process that speaks: a restarted task keeps its name and has another incarnation.
struct Caller {
  std::string task{};  // "worker:1"
  uint64_t incarnation = 0;
  static auto fields(auto& m) { return std::tie(m.task, m.incarnation); }
};

// A task others wait for.
struct MissingTask {
  std::string task{};
  std::string address{};
  double seconds = 0;   // seconds waited
  std::string where{};  // "at step 12 (training)", when it has joined; why it is not here, when it
                        // has said so
  bool busy = false;    // it builds, saves or evaluates, and so will come in its own time
  // "worker 1 at 127.0.0.1:2223 (10 s)", "worker 1 at 127.0.0.1:2223, at step 12 (training) (10 s)"
  std::string describe() const;
  static auto fields(auto& m) { return std::tie(m.task, m.address, m.seconds, m.where, m.busy); }
};

// The answer to a call that may have to wait. kWaiting: ask again later.
struct Verdict {
  // Which of the fields counts.
  enum class State { kReady, kWaiting, kFailed, kRefused };
  State state = State::kWaiting;
  std::optional<Failure> failure{};    // kFailed
  std::optional<Error> refusal{};      // kRefused: the caller's own mistake; the group continues
  std::vector<MissingTask> missing{};  // kWaiting: the missing tasks
  static auto fields(auto& m) { return std::tie(m.state, m.failure, m.refusal, m.missing); }
};

}  // namespace muster::inline v0_1::plan
