// Tells of hosts that do not belong to the job, once of each and each reason. Thread-safe.
#pragma once

#include <mutex>
#include <set>
#include <string>

namespace muster::inline v0_1::net {

class RefusalLog {
 public:
  // Writes `what`, which names the host and the reason, as a warning: the first time, and as long
  // as the log does not hold too many of them.
  void tell(const std::string& what);
  // The last refusal, written or not; "" before the first one.
  std::string last() const;

 private:
  mutable std::mutex mutex_;
  std::string last_;
  std::set<std::string> told_;
};

}  // namespace muster::inline v0_1::net
