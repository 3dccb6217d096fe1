#include "muster/data/internal/left_out.h"

#include <fmt/format.h>

#include "muster/base/log.h"

namespace muster::inline v0_1::data::internal {
namespace {

// Each of the first, then fewer and fewer: 16, 32, 64 …
bool is_named(int64_t number) { return number <= 10 || (number & (number - 1)) == 0; }

}  // namespace

void LeftOut::leave_out(const std::exception_ptr& error, bool each) {
  const std::lock_guard lock(mutex_);
  ++of_;
  ++left_out_;
  ++in_all_;
  if (in_all_ > 1 && !(each && is_named(in_all_))) return;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& reason) {
    log::warning(fmt::format("input: ignore_errors() dropped an element{}: {}",
                             in_all_ == 1 ? "" : fmt::format(" ({} so far)", in_all_),
                             reason.what()));
  }
}

void LeftOut::hand_on() {
  const std::lock_guard lock(mutex_);
  ++of_;
}

void LeftOut::end_of_pass() {
  const std::lock_guard lock(mutex_);
  if (left_out_ > 0 && left_out_ != last_told_) {
    log::warning(fmt::format("input: ignore_errors() dropped {} of {} elements", left_out_, of_));
    last_told_ = left_out_;
  }
  left_out_ = of_ = 0;
}

void LeftOut::reset() {
  const std::lock_guard lock(mutex_);
  left_out_ = of_ = 0;
}

}  // namespace muster::inline v0_1::data::internal
