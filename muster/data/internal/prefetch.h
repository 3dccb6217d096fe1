// prefetch(): reading ahead on a thread. Thread safety: as Stream.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "muster/base/queue.h"
#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Reads up to `count` elements or kMostBytesAhead bytes ahead on a thread. Every element carries
// the position after it, so that the saved position is that of the last element handed out. The
// stage itself leaves no trace in saved positions.
class PrefetchStream final : public Stream<StreamElement> {
 public:
  // While `asked` is true read() returns nothing where it would wait; nullptr: it waits.
  PrefetchStream(std::unique_ptr<Stream<StreamElement>> input, int64_t count,
                 std::shared_ptr<const std::function<bool()>> asked = nullptr)
      : input_(std::move(input)), count_(count), asked_(std::move(asked)) {}
  ~PrefetchStream() override { stop(); }

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void save(IteratorState& saved) const override {
    saved.insert(saved.end(), position_.begin(), position_.end());
  }
  Position position(IteratorStateReader& saved) const override { return input_->position(saved); }
  json identity() const override { return input_->identity(); }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  struct Entry {
    StreamElement item{};
    IteratorState position{};
    uint64_t bytes = 0;
  };
  void stop();
  void produce();
  // Waits while what is read ahead is too large; false if it is no longer wanted.
  bool wait_for_room();

  std::unique_ptr<Stream<StreamElement>> input_;
  const int64_t count_;
  const std::shared_ptr<const std::function<bool()>> asked_;
  IteratorState position_;  // after the last element handed out
  bool ended_ = false;
  std::unique_ptr<BlockingQueue<Entry>> queue_;  // closed by the thread at the end of the input
  std::mutex bytes_mutex_;
  std::condition_variable has_room_;
  uint64_t bytes_ahead_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace muster::inline v0_1::data::internal
