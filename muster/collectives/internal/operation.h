// One collective as plain data, and the thread that executes them in order. No LibTorch here.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "muster/base/error.h"
#include "muster/collectives/work.h"

namespace muster::internal {

enum class OperationKind : uint8_t { kAllReduce = 1, kBroadcast, kAllGather, kBarrier };
enum class ElementType : uint8_t { kByte = 1, kFloat32, kFloat64, kInt64 };

int64_t size_of(ElementType type);

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  ElementType type = ElementType::kByte;
  int root = 0;       // kBroadcast
  int64_t count = 0;  // elements of `data`
  std::byte* data = nullptr;
  std::byte* out = nullptr;           // kAllGather: size x count elements
  uint64_t sequence = 0;              // 1, 2, ... in submission order
  std::shared_ptr<const void> owner;  // keeps the memory alive

  int64_t bytes() const { return count * size_of(type); }
  // Same call, apart from the addresses.
  bool matches(const Operation& other) const;
  // "all_reduce #17 of 250 float32".
  std::string describe() const;
};

// What ranks called differently, for both.
Error mismatch(int rank, const Operation& mine, int peer, const Operation& theirs);

// A Work that has failed already.
Work failed_work(const Error& error);

// Executes operations on a thread of its own, in order. The first failure ends them all.
// Thread safety: submit() from one thread at a time, the rest from any.
class OperationQueue {
 public:
  struct Hooks {
    std::function<void()> start;                    // first on the thread
    std::function<void(const Operation&)> execute;  // throws Error
    std::function<void(const Error*)> finish;       // last on the thread; the failure, or nullptr
  };
  explicit OperationQueue(Hooks hooks);
  // Ends the thread after the running operation; what is queued fails. Abort a blocked operation
  // first.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  Work submit(Operation operation);
  // Queued and later operations fail with `error`; the running one is the caller's to end. False
  // when already failed.
  bool fail(const Error& error);
  // No operation is queued or running.
  bool idle() const;

 private:
  void run();

  const Hooks hooks_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Operation, std::shared_ptr<Work::State>>> queue_;
  std::optional<Error> failure_;
  uint64_t sequence_ = 0;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace muster::internal
