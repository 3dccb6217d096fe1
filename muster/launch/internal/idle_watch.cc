#include "muster/launch/internal/idle_watch.h"

#include <algorithm>

namespace muster::inline v0_1::launch::internal {
namespace {

constexpr double kWorkingShare = 0.01;  // of a core
constexpr size_t kLooks = 10;           // over which it is taken

}  // namespace

void IdleWatch::note_life(TimePoint now) {
  printed_ = now;
  idle_ = Seconds(0);
}

void IdleWatch::look(double seconds, TimePoint now, Seconds every) {
  if (!samples_.empty()) {
    const Sample& oldest = samples_.front();
    const TimePoint last = samples_.back().time;
    const Seconds passed = now - oldest.time;
    if (seconds - oldest.seconds >= kWorkingShare * passed.count()) {
      idle_ = Seconds(0);
    } else {
      const Seconds silent = now - std::max(last, printed_.value_or(last));
      idle_ += std::min(silent, 2 * every);
    }
  }
  samples_.push_back({now, seconds});
  if (samples_.size() > kLooks) samples_.pop_front();
}

}  // namespace muster::inline v0_1::launch::internal
