// map() of several calls at once, after a stage without an index.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "muster/data/internal/map.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

// Threads take elements from the input in its order and map them. A deterministic map leaves no
// trace in saved positions; another map hands on elements as they are ready, unless they have to be
// kept in order; its position is the position of the oldest element not handed on, with the list of
// younger ones that were.
class ParallelMapStream final : public Stream<StreamElement> {
 public:
  ParallelMapStream(std::unique_ptr<Stream<StreamElement>> input, MapStage stage, const Run& run);
  ~ParallelMapStream() override { stop(); }

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override;
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  struct Entry {
    StreamElement item;
    IteratorState behind;  // the input's position after the element
    uint64_t bytes = 0;    // when ready
    bool ready = false;
    bool handed_on = false;
  };

  void stop();
  void work();
  // Sets input_'s position to the place up to which everything was handed on.
  void begin_here();
  // The entry to hand on next, waiting for it; null at the end. The lock is held.
  Entry* wait_for_entry(std::unique_lock<std::mutex>& lock);
  void hand_on(Entry& entry, StreamElement* out);

  std::unique_ptr<Stream<StreamElement>> input_;
  const MapStage stage_;
  const Run& run_;
  const int calls_;
  const bool ordered_;
  const bool listed_;  // saved positions begin with the list
  const size_t most_;  // entries under way

  mutable std::mutex mutex_;
  std::condition_variable has_room_, is_ready_;
  std::mutex input_mutex_;     // taken before mutex_
  std::deque<Entry> entries_;  // not handed on yet, in the input's order; others between them
  IteratorState before_;       // of the place before entries_.front()
  std::vector<int64_t> passed_over_;  // of a restored position: offsets handed on before
  uint64_t bytes_ahead_ = 0;          // of entries that are ready
  int64_t taken_ = 0;                 // from the input since it was started or restored
  bool input_ended_ = false, stopping_ = false;
  int working_ = 0;  // entries being made
  std::vector<std::thread> threads_;
};

}  // namespace muster::inline v0_1::data::internal
