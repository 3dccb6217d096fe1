#include "muster/base/exit_code.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kNotFound:
      return kExitWrongUse;
    case ErrorKind::kPeerLost:
    case ErrorKind::kTimeout:
    case ErrorKind::kUnavailable:
      return kExitRestart;
    case ErrorKind::kCancelled:
      return kExitTerminated;
    case ErrorKind::kCorrupt:
    case ErrorKind::kNonFinite:
    case ErrorKind::kInternal:
      return kExitFailed;
  }
  return kExitFailed;
}

}  // namespace muster::inline v0_1
