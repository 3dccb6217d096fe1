#include "muster/data/internal/ignore_errors.h"

#include <fmt/format.h>

#include "muster/base/log.h"

namespace muster::inline v0_1::data::internal {

bool IgnoreErrorsStream::passes(StreamElement& item) {
  if (item.error == nullptr) {
    in_a_row_ = 0;
    return true;
  }
  if (++in_a_row_ == kMostInARow) {
    in_a_row_ = 0;
    try {
      std::rethrow_exception(item.error);
    } catch (...) {
      item.error = current_failure(
          fmt::format("ignore_errors: {} elements in a row cannot be read, the last of them "
                      "because",
                      kMostInARow));
    }
    return true;
  }
  ++ignored_;
  // Each of the first, then fewer and fewer: 16, 32, 64 …
  constexpr int64_t kAll = 10;
  if (log_warning_ && (ignored_ <= kAll || (ignored_ & (ignored_ - 1)) == 0)) {
    try {
      std::rethrow_exception(item.error);
    } catch (const std::exception& error) {
      log::warning(fmt::format("input: element ignored ({} so far): {}", ignored_, error.what()));
    }
  }
  return false;
}

}  // namespace muster::inline v0_1::data::internal
