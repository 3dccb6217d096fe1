// Saves that fail: a run continues without one and tries again with the next, until too many in a
// row have failed. Estimators, loops written by hand, boosted trees and callbacks of Keras have
// this rule. Thread safety: none, the owner locks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/distribute/group.h"

namespace muster::inline v0_1 {

// Returns how many saves to `directory` may fail in a row: `limit`, and if that is not set 2 in a
// store, whose network comes back, and 0 on a disk.
MUSTER_PART_EXPORT int64_t most_failed_saves(std::optional<int64_t> limit,
                                             const std::string& directory);

// Throws InvalidArgument for a limit below 0; `option` is how messages call it.
MUSTER_PART_EXPORT void check_max_failed_saves(std::optional<int64_t> limit,
                                               const std::string& option);

class MUSTER_PART_EXPORT FailedSaves {
 public:
  // So many may fail in a row; 0: none. `option` is how messages call the limit:
  // "RunConfig.max_failed_saves".
  FailedSaves(int64_t limit, std::string option) : limit_(limit), option_(std::move(option)) {}

  // The chief decides how many saves may fail, because it knows where it saves: all replicas call
  // this together, and have its limit from then on.
  void take_chiefs_limit(distribute::Group& group, bool chief);
  // Another limit from the next save on.
  void set_limit(int64_t limit) { limit_ = limit; }
  // Whether one may fail at all.
  bool patient() const { return limit_ > 0; }

  // A save failed. The log says so, and that the run continues. If it is one too many, throws an
  // Error of its kind that counts them. Cancelled is rethrown unchanged: nothing failed.
  void note(const Error& error);
  // A save succeeded: later failures are counted anew.
  void forget() { in_a_row_ = 0; }

  // Calls `save`, and returns whether it saved. If it `must`, or none may fail, its exception is
  // rethrown.
  bool attempt(bool must, const std::function<void()>& save);

 private:
  int64_t limit_;
  std::string option_;
  int64_t in_a_row_ = 0;
};

}  // namespace muster::inline v0_1
