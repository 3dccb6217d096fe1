// The one error type of Muster: a kind, a message, the chain of causes, and what to do about it.
// Thread safety: a value; copying is cheap enough for the paths that fail.
//
// An Error that ends the run is thrown. Where the caller decides (files, network, parsing), the
// same record is returned in a Result<T> (result.h). Errors of other libraries are converted once,
// where Muster calls the library.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// The kind of a failure; it decides the exit code.
enum class ErrorKind {
  kInvalidArgument,  // the caller asked for something impossible
  kNotFound,         // a file, key, variable or task that should exist does not
  kCorrupt,          // bytes that fail their checks
  kNonFinite,        // NaN or infinity where training needs numbers
  kPeerLost,         // another task of the cluster died or stopped answering
  kTimeout,          // a bounded wait ran out
  kUnavailable,      // a resource is busy or not reachable now; trying again may work
  kCancelled,        // stopped on request
  kInternal,         // a bug in Muster, or an unknown error of another library
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
  // The messages of the errors that led to this one, the nearest first; empty without any.
  const std::vector<std::string>& causes() const { return causes_; }

  // Returns this error with a new `message`; the old message becomes the first cause. Kind and hint
  // are kept.
  Error with_context(std::string message) const;
  // Returns this error with "; detail" appended to its message. Kind, hint and causes are kept.
  Error with_detail(const std::string& detail) const;

  // "Kind: message\n  caused by: ...\n  hint: ..."; lines without content are left out.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorKind kind_;
  std::string message_;
  std::string hint_;
  std::vector<std::string> causes_;
  std::string text_;
};

// Shorthands for throwing: `throw invalid_argument("batch_size is -1", "pass ...")`.
MUSTER_EXPORT Error invalid_argument(std::string message, std::string hint = {});
MUSTER_EXPORT Error not_found(std::string message, std::string hint = {});
MUSTER_EXPORT Error corrupt(std::string message, std::string hint = {});
MUSTER_EXPORT Error internal_error(std::string message, std::string hint = {});

// The error for a failed system call: errno 2 -> NotFound, EAGAIN, EADDRINUSE, ECONNREFUSED
// -> Unavailable; EACCES, EROFS, EINVAL and a full disk (ENOSPC, EDQUOT, EFBIG, with a hint where
// none is given) -> InvalidArgument; ETIMEDOUT -> Timeout; the rest Internal.
MUSTER_EXPORT Error from_errno(int error_number, std::string message, std::string hint = {});

// Returns the exit code of a program that ends with this kind of error:
// 1 Corrupt, NonFinite, Internal; 2 InvalidArgument, NotFound; 138 PeerLost, Timeout, Unavailable
// ("please restart me"); 143 Cancelled.
MUSTER_EXPORT int exit_code(ErrorKind kind);

}  // namespace muster::inline v0_1
