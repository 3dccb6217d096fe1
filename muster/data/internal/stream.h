// What an iterator is made of: streams, each pulling from the one before it. Those before the first
// batch() carry Refs (integers), those after it carry Items (values); take, skip, shard, shuffle
// and repeat are written once for both. Thread safety: a stream belongs to one thread at a time;
// position() and identity() read nothing that changes and may be called while another thread reads
// the stream. No LibTorch in this header.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/internal/clocks.h"
#include "muster/data/iterator.h"

namespace muster::inline v0_1::data::internal {

using nlohmann::json;

// An element before it is read: its index in the source and the pass over the source that gave it.
struct Ref {
  int64_t index = 0;
  int64_t run = 0;
};

// Cores that the calls of maps share. (libstdc++'s counting_semaphore may miss a release.) Thread
// safety: any thread.
class Cores {
 public:
  explicit Cores(int cores) : free_(cores) {}

  // Holds one of them while it lives; none of a null `cores`.
  class Use {
   public:
    explicit Use(Cores* cores) : cores_(cores) {
      if (cores_ == nullptr) return;
      std::unique_lock lock(cores_->mutex_);
      cores_->is_free_.wait(lock, [this] { return cores_->free_ > 0; });
      --cores_->free_;
    }
    ~Use() {
      if (cores_ == nullptr) return;
      const std::lock_guard lock(cores_->mutex_);
      ++cores_->free_;
      cores_->is_free_.notify_one();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Cores* const cores_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable is_free_;
  int free_;
};

// What the streams of one iterator share; a branch of the pipeline (an input of zip(), a data set
// that flat_map() opens) has one of its own, so that it draws other numbers.
class Run {
 public:
  // `cores`: maps that leave it to the pipeline how many of their calls run at once share so many.
  Run(uint64_t seed, const Sharding& sharding, const void* dealing_node, int cores)
      : sharding(sharding), dealing_node(dealing_node), seed_(seed), cores_(cores) {}
  // A branch of `outer`, which must outlive it. `scope`: of a pipeline made while it runs, the
  // stage that makes it; its stages are timed together with those of others made there.
  Run(const Run& outer, RandomKey branch, std::string scope = "")
      : outer_(&outer), branch_(branch), scope_(outer.scope_ + scope), cores_(0) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  uint64_t seed() const {
    if (outer_ == nullptr) return seed_;
    return derive_key(outer_->seed(), {branch_.key, branch_.stream}).key;
  }
  void set_seed(uint64_t seed) { seed_ = seed; }
  // The iterator is going away: long loops end.
  void stop() { stopping_ = true; }
  bool stopping() const {
    return outer_ != nullptr ? outer_->stopping() : stopping_.load(std::memory_order_relaxed);
  }
  // Whose times a stage of this pipeline adds to.
  Clocks& clocks() const { return outer_ != nullptr ? outer_->clocks() : clocks_; }
  const std::string& scope() const { return scope_; }
  Cores& cores() const { return outer_ != nullptr ? outer_->cores() : cores_; }

  const Sharding sharding;
  const void* const dealing_node = nullptr;  // the batch that deals to the replicas

 private:
  const Run* const outer_ = nullptr;
  const RandomKey branch_;
  const std::string scope_;
  std::atomic<uint64_t> seed_{0};  // a stage that is done with its input may leave threads there
  std::atomic<bool> stopping_{false};
  mutable Clocks clocks_;
  mutable Cores cores_;
};

// The members of an identity that count its files, and stand for their names.
inline constexpr const char* kFileCount = "files";
inline constexpr const char* kFileNames = "names";

// A position as plain numbers, written by mark() for every element that prefetch reads; they are
// all that is saved.
using Marks = std::vector<int64_t>;

// Reads what mark() wrote, in its order. Throws InvalidArgument for numbers that mark() does not
// write: positions come from files.
class MarkReader {
 public:
  explicit MarkReader(std::span<const int64_t> marks) : marks_(marks) {}
  int64_t next();
  // The same, at least 0.
  int64_t count();
  // The next `size` numbers as a position of their own.
  MarkReader part(int64_t size);
  bool at_end() const { return at_ == marks_.size(); }

 private:
  std::span<const int64_t> marks_;
  size_t at_ = 0;
};

// A stage keeps it for long, and is told what that takes beside itself. (Of Items there is more to
// do.)
inline uint64_t hold(Ref&) { return 0; }
inline void become_error(Ref&, std::exception_ptr) {}

template <typename T>
class Stream {
 public:
  virtual ~Stream() = default;

  // Back to the beginning, as pass number `run` (0 for the first; every pass has a number of its
  // own).
  virtual void start(int64_t run) = 0;
  // Up to `count` elements; fewer only at the end.
  virtual int64_t read(T* out, int64_t count) = 0;
  // Passes over up to `count` elements; fewer only at the end.
  virtual int64_t skip(int64_t count) = 0;
  // Examples one element stands for, over all replicas: 1 before batch().
  virtual int64_t examples_per_element() const = 0;

  // The position behind the last element read, appended.
  virtual void mark(Marks& marks) const = 0;
  virtual Position position(MarkReader& marks) const = 0;
  // The part of a saved position that must agree for it to belong here.
  virtual json identity() const = 0;
  // Continues at what mark() wrote. REQUIRES: identity() agrees. Throws InvalidArgument for numbers
  // that cannot be.
  virtual void restore(MarkReader& marks, int64_t run) = 0;
};

// Throws InvalidArgument naming the first difference when `saved` does not belong to the pipeline
// `here` describes.
void check_identity(const json& saved, const json& here);

}  // namespace muster::inline v0_1::data::internal
