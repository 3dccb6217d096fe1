// Finds out that all workers of a loop make the same call, before anything of the call travels.
// Thread safety: belongs to the loop's thread.
//
// A worker announces its call by a reduction of a few numbers. While gradients are computed, the
// announcement travels beside them and costs no wait of its own. A worker that has joined (it has
// no more data) makes no calls: it meets those of the others, and learns which they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/collectives/communicator.h"
#include "muster/distribute/replica.h"

namespace muster::inline v0_1::internal {

class CallMeeting {
 public:
  // What a call is, beside its words.
  enum class Kind { kOther, kBackward, kSave, kBarrier, kParameters, kNormForward, kNormBackward };
  static constexpr size_t kMostNumbers = 1024;
  struct Call {
    Kind kind = Kind::kOther;
    int number = 0;      // of the module or the checkpoint that it is about, below kMostNumbers
    std::string text{};  // "backward() of \"net\"", for messages
  };
  // What all workers say together.
  struct Met {
    int active = 0;  // workers that made the call; the others have joined
    Kind kind = Kind::kOther;
    int number = 0;  // of the call that they made
  };

  // `replica` outlives this object; `asked_to_stop` is asked at each call.
  CallMeeting(distribute::Replica& replica, std::function<bool()> asked_to_stop)
      : replica_(replica), asked_to_stop_(std::move(asked_to_stop)) {}

  // Announces the call, and does not wait for the others.
  void begin(const Call& call);
  // Waits for them. Throws InvalidArgument on every worker where two make different calls, naming
  // both.
  Met end();
  // Both.
  Met meet(const Call& call) {
    begin(call);
    return end();
  }
  // Throws InvalidArgument, which all workers do here, after the same texts. Nobody ends the run
  // before all have them: the others would be told of a lost worker instead.
  [[noreturn]] void refuse_together(const std::string& message, const std::string& hint);
  // A worker that has joined meets the next call of the others; active is 0 where all have joined.
  Met meet_joined();

  // The module whose buckets leave during the backward() under way; nullptr: none's.
  const void* leader = nullptr;
  // Whether a worker was asked to stop, as of the last meeting: the same on all of them.
  bool stop() const { return stop_; }

 private:
  void send(int64_t active, int64_t code);
  [[noreturn]] void throw_different();

  distribute::Replica& replica_;
  const std::function<bool()> asked_to_stop_;
  std::string text_;  // of the call that was announced last
  Tensor numbers_;
  Work work_;
  bool stop_ = false;
};

}  // namespace muster::inline v0_1::internal
