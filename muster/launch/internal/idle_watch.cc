#include "muster/launch/internal/idle_watch.h"

#include <algorithm>

namespace muster::inline v0_1::launch::internal {
namespace {

constexpr double kWorkingShare = 0.01;  // of a core

}  // namespace

void IdleWatch::note_life(TimePoint now) {
  printed_ = now;
  idle_ = Seconds(0);
}

void IdleWatch::look(double seconds, TimePoint now, Seconds every) {
  if (last_) {
    const Seconds passed = now - last_->time;
    if (seconds - last_->seconds >= kWorkingShare * passed.count()) {
      idle_ = Seconds(0);
    } else {
      const Seconds silent = now - std::max(last_->time, printed_.value_or(last_->time));
      idle_ += std::min(silent, 2 * every);
    }
  }
  last_ = Sample{now, seconds};
}

}  // namespace muster::inline v0_1::launch::internal
