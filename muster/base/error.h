// The one error type of Muster: a kind, a message, the chain of causes, and what to do about it.
// Thread safety: a value; copying is cheap enough for the paths that fail.
//
// What ends the run is thrown as Error. Where the caller decides (files, network, parsing) the same
// record travels in a Result<T> (result.h). Errors of other libraries are converted once, at the
// border.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// The sort of a failure; it decides the exit code.
enum class ErrorKind {
  kInvalidArgument,  // the caller asked for something that cannot be
  kNotFound,         // a file, key, variable or task that should exist does not
  kCorrupt,          // bytes that fail their checks
  kNonFinite,        // NaN or infinity where training needs numbers
  kPeerLost,         // another task of the cluster died or stopped answering
  kTimeout,          // a bounded wait ran out
  kUnavailable,      // a resource is busy or not reachable now; trying again may work
  kCancelled,        // stopped on request
  kInternal,         // a bug of ours, or a foreign error nobody classified
};

// Returns "InvalidArgument", "NotFound" and so on.
MUSTER_EXPORT std::string_view to_string(ErrorKind kind);

class MUSTER_EXPORT Error : public std::exception {
 public:
  // `message` names what is wrong, where, and which value; `hint` says in one sentence what to do.
  Error(ErrorKind kind, std::string message, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  // The messages of what led to this error, the nearest first; empty when nothing did.
  const std::vector<std::string>& causes() const { return causes_; }

  // Returns this error with `message` in place of its own, which becomes the first cause. Kind and
  // hint stay.
  Error with_context(std::string message) const;
  // Returns this error with "; detail" behind its message. Everything else stays.
  Error with_detail(const std::string& detail) const;

  // "Kind: message\n  caused by: ...\n  hint: ..."; the last lines only when there is something to
  // say.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
  std::string hint_;
  std::vector<std::string> causes_;
  std::string text_;
};

// Shorthands that read well at the throw: `throw invalid_argument("batch_size is -1", "pass ...")`.
MUSTER_EXPORT Error invalid_argument(std::string message, std::string hint = {});
MUSTER_EXPORT Error not_found(std::string message, std::string hint = {});
MUSTER_EXPORT Error corrupt(std::string message, std::string hint = {});
MUSTER_EXPORT Error internal_error(std::string message, std::string hint = {});

// The error for a failed system call: errno 2 -> NotFound, EAGAIN, EADDRINUSE, ECONNREFUSED
// -> Unavailable; EACCES, EROFS, EINVAL and a full disk (ENOSPC, EDQUOT, EFBIG, with a hint where
// none is given) -> InvalidArgument; ETIMEDOUT -> Timeout; the rest Internal.
MUSTER_EXPORT Error from_errno(int error_number, std::string message, std::string hint = {});

// The exit code a program owes its scheduler for this kind:
// 1 Corrupt, NonFinite, Internal; 2 InvalidArgument, NotFound; 138 PeerLost, Timeout, Unavailable
// ("please restart me"); 143 Cancelled.
MUSTER_EXPORT int exit_code(ErrorKind kind);

}  // namespace muster::inline v0_1
