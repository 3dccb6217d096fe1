#include "muster/net/internal/refusal_log.h"

#include "muster/base/log.h"

namespace muster::inline v0_1::net {

void RefusalLog::tell(const std::string& what) {
  constexpr size_t kMost = 256;
  {
    const std::lock_guard lock(mutex_);
    last_ = what;
    if (told_.size() >= kMost || !told_.insert(what).second) return;
  }
  log::warning(what);
}

std::string RefusalLog::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

}  // namespace muster::inline v0_1::net
