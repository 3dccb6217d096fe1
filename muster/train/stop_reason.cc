#include "muster/train/stop_reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kYes = "asked";

}  // namespace

std::optional<StopReason> StopReason::agree(distribute::Group& group, bool asked) {
  const std::vector<std::string> all = group.gather_text("stop", asked ? kYes : "");
  const auto first = std::ranges::find(all, kYes);
  if (first == all.end()) return std::nullopt;
  return StopReason(asked, static_cast<size_t>(first - all.begin()));
}

Error StopReason::error(const std::string& where, bool kept) const {
  // This task's signal may come a moment after another's, while the run saves.
  if (asked_ || stop_signal() != 0) {
    return Error(ErrorKind::kCancelled, fmt::format("stopped by {} {}", stop_signal_name(), where),
                 kept ? "run the same command again to continue"
                      : "nothing was saved, so the same command starts from the beginning");
  }
  return Error(ErrorKind::kUnavailable,
               fmt::format("task {} of the group was asked to stop; all stopped {}", first_, where),
               kept ? "start all tasks again to continue"
                    : "nothing was saved, so restarted tasks start from the beginning");
}

}  // namespace muster::inline v0_1
