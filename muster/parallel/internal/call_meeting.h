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
#include <utility>
#include <vector>

#include "muster/collectives/communicator.h"
#include "muster/distribute/replica.h"
#include "muster/parallel/internal/weight_sample.h"

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
    // Of a backward(): of the weights as the worker comes to it, and of the forwards of its module
    // since the backward() before it.
    WeightSample sample{};
    int64_t forwards = 0;
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
  // both, and where weights differ in a backward(). Warns on all workers, once for a module, of a
  // worker that seems to have left out a backward().
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
  // `forwards`: of all its modules since their last backward().
  Met meet_joined(int64_t forwards);

  // The module whose buckets leave during the backward() under way; nullptr: none's.
  const void* leader = nullptr;
  // Whether a worker was asked to stop, as of the last meeting: the same on all of them.
  bool stop() const { return stop_; }

 private:
  void send();
  std::string worker_name() const { return replica_.place().name(); }
  [[noreturn]] void throw_different();
  // Of a backward() of module `number`.
  void compare_weights(int64_t active);
  void compare_forwards(int64_t active, int number);
  // What each worker brought to the call, by rank.
  struct Account;
  std::vector<Account> gather_accounts();
  [[noreturn]] void throw_weights_differ();
  void warn_of_left_out();

  distribute::Replica& replica_;
  const std::function<bool()> asked_to_stop_;
  Call call_;                 // that was announced last
  bool joined_ = false;       // no call, but meet_joined()
  std::set<int> told_;        // modules whose forwards were compared in detail
  bool told_joined_ = false;  // the same of workers that had joined
  Tensor numbers_;
  Work work_;
  bool stop_ = false;
};

}  // namespace muster::inline v0_1::internal
