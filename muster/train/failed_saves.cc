#include "muster/train/failed_saves.h"

#include <fmt/format.h>

#include <vector>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/files/shared_patience.h"

namespace muster::inline v0_1 {

int64_t most_failed_saves(std::optional<int64_t> limit, const std::string& directory) {
  return limit.value_or(is_remote(directory) ? 2 : 0);
}

void check_max_failed_saves(std::optional<int64_t> limit, const std::string& option) {
  if (limit.value_or(0) >= 0) return;
  throw invalid_argument(fmt::format("{} is {}; it must be 0 or more", option, *limit),
                         "0 lets no save fail; leave it out for 2 in a bucket and 0 on a disk");
}

void FailedSaves::take_chiefs_limit(distribute::Group& group, bool chief) {
  const std::vector<std::string> told =
      group.gather_text("max_failed_saves", chief ? std::to_string(limit_) : "");
  for (const std::string& text : told) limit_ = parse_int(text).value_or(limit_);
}

void FailedSaves::note(const Error& error) {
  if (error.kind() == ErrorKind::kCancelled) throw error;
  ++in_a_row_;
  if (in_a_row_ > limit_) {
    throw Error(error.kind(),
                fmt::format("{} saves in a row failed, and no more may; the last: {}", in_a_row_,
                            error.message()),
                fmt::format("{}; {} says how many may fail", error.hint(), option_));
  }
  log::warning(fmt::format(
      "{}; the run continues and retries at the next save ({} of {} allowed failures in a row); {}",
      error.message(), in_a_row_, limit_, error.hint()));
}

bool FailedSaves::attempt(bool must, const std::function<void()>& save) {
  try {
    const SharedPatience patience;
    save();
  } catch (const Error& error) {
    if (must || !patient()) throw;
    note(error);
    return false;
  }
  forget();
  return true;
}

}  // namespace muster::inline v0_1
