#include "muster/data/internal/ignore_errors.h"

#include <fmt/format.h>

namespace muster::inline v0_1::data::internal {

int64_t IgnoreErrorsStream::read(StreamElement* out, int64_t count) {
  return told(SelectingStream::read(out, count), count);
}

int64_t IgnoreErrorsStream::skip(int64_t count, std::exception_ptr* lost) {
  return told(SelectingStream::skip(count, lost), count);
}

int64_t IgnoreErrorsStream::told(int64_t got, int64_t wanted) {
  // A data set that a stage makes while it runs is not a pass of its own.
  if (got < wanted && !run_.stopping() && run_.scope().empty()) run_.left_out().end_of_pass();
  return got;
}

bool IgnoreErrorsStream::passes(StreamElement& item) {
  if (item.error == nullptr) {
    in_a_row_ = 0;
    run_.left_out().hand_on();
    return true;
  }
  if (++in_a_row_ == kMostInARow) {
    in_a_row_ = 0;
    try {
      std::rethrow_exception(item.error);
    } catch (...) {
      item.error = current_loss(
          fmt::format("ignore_errors: {} elements in a row cannot be read, the last of them "
                      "because",
                      kMostInARow));
    }
    return true;
  }
  run_.left_out().leave_out(item.error, log_warning_);
  return false;
}

}  // namespace muster::inline v0_1::data::internal
