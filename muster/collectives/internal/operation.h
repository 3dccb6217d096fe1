// One collective as plain data, and the thread that executes them in order. No LibTorch here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/collectives/work.h"

namespace muster::inline v0_1 {

struct Work::State {
  virtual ~State() = default;
  // Called by who waits (or, without `block`, who asks): may bring the operation forward on the
  // caller's thread.
  virtual void help(bool /*block*/) {}

  bool is_finished() const { return finished.load(std::memory_order_acquire) != 0; }
  void finish(std::optional<Error> failure) {
    error = std::move(failure);
    finished.store(1, std::memory_order_release);
    finished.notify_all();
  }

  std::atomic<int> finished = 0;
  std::optional<Error> error;  // written before `finished`
};

}  // namespace muster::inline v0_1

namespace muster::inline v0_1::internal {

enum class OperationKind : uint8_t {
  kAllReduce = 1,
  kBroadcast,
  kAllGather,
  kBarrier,
  kReduceScatter
};
enum class ElementType : uint8_t { kByte = 1, kFloat32, kFloat64, kInt64, kBfloat16, kFloat16 };

int64_t size_of(ElementType type);

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  ElementType type = ElementType::kByte;
  int root = 0;                       // kBroadcast
  int64_t count = 0;                  // elements of `data`; of `out` for kReduceScatter
  std::byte* data = nullptr;          // kReduceScatter: size x count elements
  std::byte* out = nullptr;           // kAllGather: size x count elements
  uint64_t sequence = 0;              // 1, 2, ... in submission order
  std::shared_ptr<const void> owner;  // keeps the memory alive

  int64_t bytes() const { return count * size_of(type); }
  // What a rank of `size` brings.
  int64_t contributed_bytes(int size) const {
    return kind == OperationKind::kReduceScatter ? size * bytes() : bytes();
  }
  bool sums() const {
    return kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter;
  }
  // Same call, apart from the addresses.
  bool matches(const Operation& other) const;
  // "all_reduce #17 of 250 float32".
  std::string describe() const;
};

// What ranks called differently, for both.
Error mismatch(int rank, const Operation& mine, int peer, const Operation& theirs);

// A Work that has failed already.
Work failed_work(const Error& error);

// What carries operations out, in the order they were submitted. The first failure ends them all.
// Thread safety: submit() from one thread at a time, the rest from any.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual Work submit(Operation operation) = 0;
  // Queued and later operations fail with `error`. False when they failed already.
  virtual bool fail(const Error& error) = 0;
  // No operation is queued or running.
  virtual bool idle() const = 0;
};

// Executes operations one at a time: on a thread of its own, beside the caller's work, or
// on the thread that waits for one, which spares the hand-over.
class OperationQueue final : public Executor {
 public:
  struct Hooks {
    std::function<void()> start;                    // first on the queue's thread
    std::function<void(const Operation&)> execute;  // throws Error
    // Last on the queue's thread; the failure, or nullptr.
    std::function<void(const Error*)> finish;
  };
  explicit OperationQueue(Hooks hooks);
  // Ends the thread after the running operation; what is queued fails. Abort a blocked operation
  // first.
  ~OperationQueue() override;
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  Work submit(Operation operation) override;
  // The running operation is the caller's to end.
  bool fail(const Error& error) override;
  bool idle() const override;

 private:
  struct Core;

  const std::shared_ptr<Core> core_;
  std::thread thread_;
};

}  // namespace muster::inline v0_1::internal
