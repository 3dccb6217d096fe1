// Joins simultaneous requests into one batch of the model, and gives each its rows of the answer.
// Thread safety: any thread may ask.
//
// A request waits in a queue. A runner takes the oldest and the requests after it that fit: the
// same signature, the same lengths of all axes except the batch, at most max_rows rows together.
// While it computes, the next ones gather.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/serve/array.h"
#include "muster/serve/serving_metrics.h"

namespace muster::inline v0_1::serve {

// How requests are joined, and how many may wait.
struct BatcherOptions {
  int64_t max_rows = 32;       // of a batch; a request that has more runs by itself; 1: none joins
  Duration max_wait{0};        // how long a request waits for others while a runner is free
  int64_t max_requests = 256;  // that wait or are being answered; more are refused
  int runners = 1;             // batches that are computed at the same time, each on its thread
};

class Batcher {
 public:
  // Computes one batch; called on the runners' threads.
  using Run = std::function<Arrays(const std::string& signature, const Arrays& inputs)>;

  // Throws InvalidArgument for options below 1, or a negative wait. `metrics` and `clock` must
  // outlive the batcher.
  Batcher(Run run, const BatcherOptions& options, ServingMetrics& metrics,
          Clock& clock = system_clock());
  // REQUIRES: no thread asks any more.
  ~Batcher();

  // Throws Unavailable when the queue is full. answer() does so too; asked before, a request that
  // will be refused is not decoded first.
  void check_room() const;

  // Returns the outputs for `inputs`, which have `rows` rows each. `joins` says that each output
  // has as many. Throws the errors of the run: if a batch of several fails, each of its requests is
  // run by itself, so that only the faulty one fails. Throws Unavailable if the queue is full, and
  // Timeout if there is no answer at `deadline`; a later result is dropped.
  Arrays answer(const std::string& signature, Arrays inputs, int64_t rows, bool joins,
                TimePoint deadline);

 private:
  struct Job;
  using Jobs = std::vector<std::shared_ptr<Job>>;

  void run_batches();
  // Waits for a batch; none when the batcher ends.
  Jobs take_batch();
  // Moves the requests that fit `batch`, of `rows` rows, out of the queue into it. Returns whether
  // it takes no more. REQUIRES: locked.
  bool gather(Jobs& batch, int64_t& rows);
  void check_room_locked() const;
  // The outputs of the batch's requests, in their order.
  std::vector<Arrays> compute(const Jobs& batch);
  void answer_batch(const Jobs& batch);
  void answer_alone(const std::shared_ptr<Job>& job);
  void deliver(Job& job, Result<Arrays> result);

  const Run run_;
  const BatcherOptions options_;
  ServingMetrics& metrics_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;  // wakes a runner that has nothing to do
  std::condition_variable joined_;   // wakes runners that wait for more of their batch
  std::deque<std::shared_ptr<Job>> queue_;
  int64_t requests_ = 0;  // that wait or are being answered
  bool ending_ = false;
  std::vector<std::thread> runners_;
};

}  // namespace muster::inline v0_1::serve
