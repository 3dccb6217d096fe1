// Calls of functions that a chief schedules, and workers make: how they get there and back. A
// function travels by its name, for the same program defines it in every task; its arguments and
// results are tensors. Thread safety: as each class says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/distribute/start_options.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::ps {

// A call, as it is scheduled.
struct Closure {
  std::string function{};
  std::vector<Tensor> arguments{};  // on the CPU, contiguous
};

// The result of a call. Thread safety: ended() from any thread; the rest once that is true.
class ClosureResult {
 public:
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Why it has no result; nothing if it has one.
  const std::optional<Error>& error() const { return error_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  // Once.
  void end(std::vector<Tensor> tensors, std::optional<Error> error);

 private:
  std::atomic<bool> ended_{false};
  std::vector<Tensor> tensors_;
  std::optional<Error> error_;
};

// The settings that the chief and the workers must share.
struct ClosureOptions {
  distribute::StartOptions start{};
  distribute::ParameterServerOptions servers{};
  std::vector<std::string> definitions{};  // a line for each function: the same in all tasks
};

// The chief's side: gives each worker that comes one call after the other.
// Thread safety: all calls from any thread.
class ClosureHost {
 public:
  virtual ~ClosureHost() = default;

  // Puts a call into the queue. Throws the error of take_failure(), and forgets it. Returns
  // nothing, and schedules nothing, if the queue is full.
  virtual std::shared_ptr<const ClosureResult> schedule(Closure closure) = 0;
  // The first call that failed since the last time, as its error; and forgets it.
  virtual std::optional<Error> take_failure() = 0;
  // Calls that have not ended.
  virtual int64_t unfinished() = 0;
  // Cancels the calls that no worker has begun.
  virtual void cancel(const Error& why) = 0;
  // Waits until something has changed since this returned `seen`, or until the time is over;
  // returns the next value of `seen`. 0 returns at once.
  virtual uint64_t wait_for_change(uint64_t seen, double seconds) = 0;
  // Seconds since the last worker was present, and whether one ever came; nothing while one is
  // present.
  struct Lonely {
    double seconds = 0;
    bool came = false;
  };
  virtual std::optional<Lonely> without_workers() = 0;
  // The state that came last; see ClosureHostOptions.
  virtual std::vector<Tensor> state() = 0;
  // The run is over, and workers that ask are notified; waits for their goodbyes, within the given
  // seconds.
  virtual void close(double seconds) = 0;
};
// The data that a host gives its workers, and its limits: `form` is the form of the batch with
// which they build the model. `state` is the state of workers besides the weights: each gets it
// with its first call, and with each call of a function of `refreshed`, and may bring another one
// with its result.
struct ClosureHostOptions {
  ClosureOptions common{};
  std::string form{};
  std::vector<Tensor> state = {};
  std::set<std::string> refreshed = {};
  int64_t capacity = 262144;
  int max_attempts = 5;
};
// Serves at the chief's address of TF_CONFIG. Throws the errors of net::MessageServer().
std::unique_ptr<ClosureHost> host_closures(ClosureHostOptions options);

// A worker's side. Thread safety: belongs to its thread.
class ClosureClient {
 public:
  // Leaves without a goodbye, like a task that is lost.
  virtual ~ClosureClient() = default;

  // As in ClosureHostOptions.
  virtual const std::string& form() const = 0;
  // The work for this worker.
  struct Call {
    int64_t ticket = 0;
    Closure closure{};
    std::vector<Tensor> state = {};  // as in ClosureHostOptions; empty if it is not sent
  };
  // Waits for a call for the given seconds; nothing if there was none, or the run is over(). Throws
  // PeerLost if the chief is gone, or has taken this worker for lost.
  virtual std::optional<Call> next(double seconds) = 0;
  virtual bool over() const = 0;
  // The call is made; `state` is empty if it brings none. False if another worker makes it, so that
  // this result does not count.
  virtual bool finish(const Call& call, const std::vector<Tensor>& results,
                      const std::vector<Tensor>& state = {}) = 0;
  // It threw.
  virtual bool fail(const Call& call, const Error& error) = 0;
  // This worker leaves.
  virtual void leave() noexcept = 0;
};
// Connects to the chief. Throws the errors of net::connect_messages(), and InvalidArgument if the
// chief has another cluster, other options or other functions.
std::unique_ptr<ClosureClient> connect_closures(ClosureOptions options);

}  // namespace muster::inline v0_1::ps
