// The elements that ignore_errors() leaves out, counted and reported. Thread safety: any thread.
#pragma once

#include <cstdint>
#include <exception>
#include <mutex>

namespace muster::inline v0_1::data::internal {

// Counts over all ignore_errors() of one iterator. Warns of the first element that is left out, and
// says at the end of a pass, and when it is destroyed, how many were: no number twice.
class LeftOut {
 public:
  LeftOut() = default;
  LeftOut(const LeftOut&) = delete;
  LeftOut& operator=(const LeftOut&) = delete;
  ~LeftOut() { end_of_pass(); }

  // `each`: names each of the first ten, then fewer and fewer.
  void leave_out(const std::exception_ptr& error, bool each);
  void hand_on();
  void end_of_pass();
  // Begins to count anew: the iterator moves to another place.
  void reset();

 private:
  std::mutex mutex_;
  int64_t left_out_ = 0, of_ = 0;  // since the last end of a pass
  int64_t last_told_ = 0;          // the number of the last pass that was reported
  int64_t in_all_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
