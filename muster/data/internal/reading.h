// What a thread that reads knows of its iterator. Thread safety: each function is about the thread
// that calls it.
#pragma once

#include <functional>
#include <memory>

#include "muster/data/internal/run.h"

namespace muster::inline v0_1::data::internal {

// What the StopScope of this thread asks; nullptr without one.
std::shared_ptr<const std::function<bool()>> stop_of_this_thread();

// While it lives, this thread reads for an iterator. It is made for each block of elements.
class ReadingScope {
 public:
  explicit ReadingScope(const Run& run);
  ~ReadingScope();
  ReadingScope(const ReadingScope&) = delete;
  ReadingScope& operator=(const ReadingScope&) = delete;

 private:
  const Run* const before_;
};

}  // namespace muster::inline v0_1::data::internal
