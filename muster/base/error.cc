#include "muster/base/error.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace muster::inline v0_1 {
namespace {

constexpr const char* kNoRoomHint =
    "free space on that disk (df -h and quota -s show what is left) and run the same command "
    "again, or choose another directory";

std::string render(ErrorKind kind, const std::string& message,
                   const std::vector<std::string>& causes, const std::string& hint) {
  std::string text(to_string(kind));
  text += ": ";
  text += message;
  for (const std::string& cause : causes) text += "\n  caused by: " + cause;
  if (!hint.empty()) text += "\n  hint: " + hint;
  return text;
}

}  // namespace

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return "InvalidArgument";
    case ErrorKind::kNotFound:
      return "NotFound";
    case ErrorKind::kCorrupt:
      return "Corrupt";
    case ErrorKind::kNonFinite:
      return "NonFinite";
    case ErrorKind::kPeerLost:
      return "PeerLost";
    case ErrorKind::kTimeout:
      return "Timeout";
    case ErrorKind::kUnavailable:
      return "Unavailable";
    case ErrorKind::kCancelled:
      return "Cancelled";
    case ErrorKind::kInternal:
      return "Internal";
  }
  return "Internal";
}

Error::Error(ErrorKind kind, std::string message, std::string hint)
    : kind_(kind), message_(std::move(message)), hint_(std::move(hint)) {
  text_ = render(kind_, message_, causes_, hint_);
}

Error Error::with_context(std::string message) const {
  Error error = *this;
  error.causes_.insert(error.causes_.begin(), error.message_);
  error.message_ = std::move(message);
  error.text_ = render(error.kind_, error.message_, error.causes_, error.hint_);
  return error;
}

Error Error::with_detail(const std::string& detail) const {
  Error error = *this;
  error.message_ += "; " + detail;
  error.text_ = render(error.kind_, error.message_, error.causes_, error.hint_);
  return error;
}

Error invalid_argument(std::string message, std::string hint) {
  return Error(ErrorKind::kInvalidArgument, std::move(message), std::move(hint));
}
Error not_found(std::string message, std::string hint) {
  return Error(ErrorKind::kNotFound, std::move(message), std::move(hint));
}
Error corrupt(std::string message, std::string hint) {
  return Error(ErrorKind::kCorrupt, std::move(message), std::move(hint));
}
Error internal_error(std::string message, std::string hint) {
  return Error(ErrorKind::kInternal, std::move(message), std::move(hint));
}

Error from_errno(int error_number, std::string message, std::string hint) {
  ErrorKind kind = ErrorKind::kInternal;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:  // a link that leads nowhere counts as a missing file
      kind = ErrorKind::kNotFound;
      break;
    case EAGAIN:
    case EADDRINUSE:
    case ECONNREFUSED:
    case EBUSY:
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
      kind = ErrorKind::kUnavailable;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
      kind = ErrorKind::kInvalidArgument;
      break;
    // Disk space does not come back by itself: a scheduler that starts the run again would do so
    // for ever.
    case ENOSPC:
    case EDQUOT:
      kind = ErrorKind::kInvalidArgument;
      if (hint.empty()) hint = kNoRoomHint;
      break;
    case EFBIG:
      kind = ErrorKind::kInvalidArgument;
      if (hint.empty())
        hint =
            "raise the limit on the size of a file (ulimit -f), or choose a directory of a file "
            "system that takes larger ones";
      break;
    case ETIMEDOUT:
      kind = ErrorKind::kTimeout;
      break;
    default:
      break;
  }
  return Error(kind, std::move(message) + ": " + std::strerror(error_number), std::move(hint));
}

}  // namespace muster::inline v0_1
