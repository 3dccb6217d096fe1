// The streams that carry values one to one: reading what a Ref names, map, prefetch, and the clock
// in between.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "muster/base/queue.h"
#include "muster/data/internal/batch_memory.h"
#include "muster/data/internal/items.h"
#include "muster/data/internal/worker_pool.h"

namespace muster::inline v0_1::data::internal {

// One map() of the pipeline.
struct MapStage {
  NodePtr node;

  // Throws Error naming the map, the pipeline and the element.
  Element operator()(const Element& element, const Place& from, const Run& run) const;
  // Of an item, whose error it leaves or sets.
  void apply(Item& item, const Run& run) const;
};

// The result of `make`, whose errors name the stage, and the element the batch was to begin with.
template <typename Make>
auto in_batch(const Node& batch, const Place& first, Make make) {
  try {
    return make();
  } catch (...) {
    std::rethrow_exception(current_failure(
        fmt::format("no batch that begins with {} (pass {}), in {}",
                    describe_place(first, *batch.input()), first.tag.run, batch.description)));
  }
}

// What a stage reads ahead at most, in bytes of elements.
inline constexpr uint64_t kMostBytesAhead = uint64_t{1} << 28;

// How many calls of the map may run at once: as asked, or the cores of this task.
int calls_of(const Map& map);

// Reads the elements that Refs name, through the maps between the source and the first batch.
class Reader {
 public:
  Reader(NodePtr node, const Run& run);

  Element read(const Ref& ref) const;
  // The rows of `batch`. Maps that ask for the same number of calls run together, one element after
  // another; those that ask for others behind them. Throws InvalidArgument when what the maps make
  // of the first says that they do not fit into memory.
  Element gather(std::span<const Ref> refs, const Node& batch);
  // Whether gather() of nothing gives zero rows: maps need an element to run on.
  bool knows_empty() const { return maps_.empty(); }
  // What one element takes; 0 without elements, and behind maps, which may make anything of it.
  uint64_t element_bytes() const;

 private:
  // Maps of which so many calls run at once.
  struct Group {
    int calls;
    size_t begin, end;                 // of maps_
    std::unique_ptr<WorkerPool> pool;  // null for one call at a time
  };
  // The maps of the group applied to `element`.
  void apply(const Group& group, const Ref& ref, Element& element) const;

  const Run& run_;
  std::shared_ptr<const Source> source_;
  std::vector<MapStage> maps_;
  std::vector<Group> groups_;
  std::vector<int64_t> indices_;
  BatchMemory memory_;
};

// The elements of an addressable chain, one by one.
class ReadStream final : public Stream<Item> {
 public:
  ReadStream(std::unique_ptr<Stream<Ref>> refs, Reader reader)
      : refs_(std::move(refs)), reader_(std::move(reader)) {}

  void start(int64_t run) override { refs_->start(run); }
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override { return refs_->skip(count); }
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override { refs_->mark(marks); }
  Position position(MarkReader& marks) const override { return refs_->position(marks); }
  json identity() const override { return refs_->identity(); }
  void restore(MarkReader& marks, int64_t run) override { refs_->restore(marks, run); }

 private:
  std::unique_ptr<Stream<Ref>> refs_;
  Reader reader_;
};

// A map behind a batch, or behind what has no index.
class MapStream final : public PassingStream {
 public:
  MapStream(std::unique_ptr<Stream<Item>> input, MapStage stage, const Run& run)
      : PassingStream(std::move(input)), stage_(std::move(stage)), run_(run) {}
  int64_t read(Item* out, int64_t count) override;

 private:
  MapStage stage_;
  const Run& run_;
};

// Counts the time of the stream it stands before.
class TimedStream final : public PassingStream {
 public:
  TimedStream(std::unique_ptr<Stream<Item>> input, StageClock& clock)
      : PassingStream(std::move(input)), clock_(clock) {}
  int64_t read(Item* out, int64_t count) override {
    Timed timed(clock_);
    const int64_t got = input().read(out, count);
    timed.count(got);
    return got;
  }
  int64_t skip(int64_t count) override {
    const Timed timed(clock_);
    return input().skip(count);
  }

 private:
  StageClock& clock_;
};

// Reads ahead on a thread, so many elements or so many bytes, whichever is less. Every element
// carries the position behind it, so what is saved is what was handed out; the stage itself leaves
// no trace in saved positions.
class PrefetchStream final : public Stream<Item> {
 public:
  PrefetchStream(std::unique_ptr<Stream<Item>> input, int64_t count)
      : input_(std::move(input)), count_(count) {}
  ~PrefetchStream() override { stop(); }

  void start(int64_t run) override;
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void mark(Marks& marks) const override {
    marks.insert(marks.end(), position_.begin(), position_.end());
  }
  Position position(MarkReader& marks) const override { return input_->position(marks); }
  json identity() const override { return input_->identity(); }
  void restore(MarkReader& marks, int64_t run) override;

 private:
  struct Entry {
    Item item;
    Marks position;
    uint64_t bytes = 0;
  };
  void stop();
  void produce();
  // Waits while what is read ahead is too large; false when nobody wants it any more.
  bool wait_for_room();

  std::unique_ptr<Stream<Item>> input_;
  const int64_t count_;
  Marks position_;  // behind the last element handed out
  bool ended_ = false;
  std::unique_ptr<BlockingQueue<Entry>> queue_;  // closed by the thread at the end of the input
  std::mutex bytes_mutex_;
  std::condition_variable has_room_;
  uint64_t bytes_ahead_ = 0;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace muster::inline v0_1::data::internal
