// One limit for all requests of a thing that takes several, such as a save: while a store is away,
// the second one does not begin to count anew. Thread safety: an object belongs to the thread that
// made it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "muster/base/clock.h"
#include "muster/base/export.h"

namespace muster::inline v0_1 {

// While it lives, requests of this thread, and requests that threads of a store make for it, share
// one StoreOptions::retry_timeout: the time counts from the first failure after which nothing was
// answered. Inside of another one it changes nothing.
class MUSTER_PART_EXPORT SharedPatience {
 public:
  // The common knowledge of an outage. Thread-safe.
  class Outage {
   public:
    // A request failed; it began to fail at `failed`. Returns since when nothing was answered.
    TimePoint note_failure(TimePoint failed);
    void note_answer();

   private:
    std::mutex mutex_;
    std::optional<TimePoint> since_;
  };

  SharedPatience();
  ~SharedPatience();
  SharedPatience(const SharedPatience&) = delete;
  SharedPatience& operator=(const SharedPatience&) = delete;

  // The outage of this thread; nullptr if there is none.
  static std::shared_ptr<Outage> current();

  // Takes part, on a thread that works for another one.
  class Part {
   public:
    explicit Part(std::shared_ptr<Outage> outage);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    std::shared_ptr<Outage> former_;
  };

 private:
  bool outermost_;
};

}  // namespace muster::inline v0_1
