#include "muster/train/stop_reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "muster/train/stop_signal.h"

namespace muster::inline v0_1 {

std::optional<StopReason> StopReason::agree(distribute::Group& group, const std::string& name,
                                            bool asked) {
  const std::vector<std::string> all = group.gather_text("stop", asked ? name : "");
  const auto first = std::ranges::find_if_not(all, &std::string::empty);
  if (first == all.end()) return std::nullopt;
  return StopReason(asked, *first);
}

Error StopReason::error(const std::string& where, bool kept) const {
  // This task's signal may come a moment after another's, while the run saves.
  if (asked_ || stop_signal() != 0) {
    return Error(ErrorKind::kCancelled, fmt::format("stopped by {} {}", stop_signal_name(), where),
                 kept ? "run the same command again to continue"
                      : "nothing was saved, so the same command starts from the beginning");
  }
  return Error(ErrorKind::kUnavailable,
               fmt::format("{} was asked to stop; all stopped {}", first_, where),
               kept ? "start all tasks again to continue"
                    : "nothing was saved, so restarted tasks start from the beginning");
}

}  // namespace muster::inline v0_1
