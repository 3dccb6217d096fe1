// Requests to stop, for threads that wait for data. Thread safety: each function is about the
// thread that calls it.
#pragma once

#include <functional>
#include <memory>

#include "muster/base/export.h"

namespace muster::inline v0_1::data {

// While it lives, iterators that this thread makes belong to a run that `asked` ends: a next() that
// waits for a prefetch() at the end of the pipeline returns nothing as soon as `asked` is true. The
// position stays after the last element that next() returned. `asked` is called on the thread of
// next(), also after the StopScope is gone.
class MUSTER_PART_EXPORT StopScope {
 public:
  explicit StopScope(std::function<bool()> asked);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::shared_ptr<const std::function<bool()>> before_;
};

}  // namespace muster::inline v0_1::data
