// An operation that was started and may still be running.
// Thread safety: a cheap value over shared state; any thread may wait.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

namespace muster::inline v0_1 {

class Error;

class Work {
 public:
  struct State;

  // Already done.
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Returns when the operation is done and its results may be read. Throws the Error that ended it:
  // PeerLost (a rank is gone), Timeout (a rank did not take part in time), Cancelled (aborted
  // here), InvalidArgument (ranks called different operations). The message names the operation and
  // the rank. Bounded: every operation has a time-out.
  void wait() const;
  // Never blocks; true also when it failed.
  bool done() const;

  // From now on the end of the operation is recorded. Without this an operation pays only a
  // comparison.
  void note_end() const;
  // The time of the end, as far as this rank knew; nothing while it is not done, and if it was done
  // before note_end(). Never blocks.
  std::optional<std::chrono::steady_clock::time_point> ended() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace muster::inline v0_1
