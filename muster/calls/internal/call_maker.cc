#include "muster/calls/internal/call_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/data/dataset.h"
#include "muster/data/distribute.h"
#include "muster/plan/activity.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr double kPoll = 1;            // seconds that the chief lets a request for a call wait
constexpr double kBeforeRejoin = 0.5;  // seconds
constexpr int kPassesWithoutRows = 3;  // after which a worker has no part of the data

// One worker's part in a run, from its connections to its goodbye.
class Worker {
 public:
  // `made` counts the calls that were made and whose results count.
  Worker(const Strategy& strategy, const ps::ClosureOptions& options,
         const RemoteFunctions& functions, int64_t& made)
      : options_(options),
        functions_(functions),
        made_(made),
        replica_(strategy.start(options.start)),
        group_(replica_.replica().group()),
        run_(replica_.run()),
        task_(replica_.replica().place().name()),
        watch_({.place = replica_.replica().place(), .watchdog = watchdog_seconds()}),
        activity_(task_, watch_.run()) {
    watch_.show_in(options.start.model_dir);
  }

  // Returns when the run is over.
  void work() {
    const plan::OnActivity on(activity_);
    watch_.begin(/*trains=*/true);
    try {
      guarded(
          replica_.replica(), [&] { work_until_over(); }, [] {},
          [&] { return fmt::format("after step {}", replica_.engine().step()); });
    } catch (...) {
      const Error error = current_error();
      watch_.end(&error);
      throw;
    }
    watch_.end(nullptr);
  }

 private:
  void work_until_over() {
    try {
      make_calls();
    } catch (const Error& error) {
      // It is more than the chief that is gone.
      if (error.kind() == ErrorKind::kCancelled) group_.check_failure();
      const bool waited = error.kind() == ErrorKind::kCancelled && !options_.start.cancelled();
      if (!(waited || error.kind() == ErrorKind::kPeerLost) || !has_ended()) throw;
    }
    run_.end_steps(SharedRun::End::kTold, {});
    replica_.engine().finish();
    log::info(fmt::format("{} made {} calls", task_, made_));
    if (!options_.start.cancelled()) return;
    throw Error(ErrorKind::kCancelled, fmt::format("{} was asked to stop", task_),
                "started again, it makes calls again");
  }

  void make_calls() {
    ps::ClosureOptions watchful = options_;
    watchful.start.cancelled = [this] { return options_.start.cancelled() || is_over(); };
    const auto client = ps::connect_closures(watchful);
    replica_.build(*functions_.training(), client->form());
    const cluster::ResolvedCluster& cluster = options_.start.cluster;
    CallMaker maker(replica_, functions_, cluster.rank - 1, cluster.num_workers - 1);
    log::info(fmt::format("{} runs calls for the chief, from step {} on", task_,
                          replica_.engine().step()));
    while (!options_.start.cancelled()) {
      activity_.enter(plan::Activity::kWaiting);
      const auto call = client->next(kPoll);
      if (client->over()) break;
      group_.check_failure();
      if (!call) continue;
      activity_.enter(plan::Activity::kCompute);
      replica_.take_state(call->state);
      const RemoteReplica::Made result = maker.make(call->closure);
      if (result.over) continue;
      const bool counts = result.error ? client->fail(*call, *result.error)
                                       : client->finish(*call, result.results, result.state);
      if (!counts) continue;
      ++made_;
      activity_.end_step(replica_.engine().step());
    }
    // Told to stop in the middle, it gives back the call it had.
    client->leave();
  }

  // Of a chief that has failed, or has ended the run, the servers know.
  bool is_over() {
    try {
      group_.check_failure();
    } catch (const Error&) {
      return true;
    }
    const TimePoint now = system_clock().now();
    if (to_seconds(now - asked_) < kPoll) return false;
    asked_ = now;
    return run_.ended();
  }

  bool has_ended() {
    try {
      return run_.ended();
    } catch (const Error& error) {
      // The ledger knows what made the run fail; without the ledger it is unknown.
      if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kTimeout) throw;
      return false;
    }
  }

  const ps::ClosureOptions& options_;
  const RemoteFunctions& functions_;
  int64_t& made_;
  RemoteReplica replica_;
  Group& group_;
  SharedRun& run_;
  const std::string task_;
  TaskWatch watch_;
  plan::ListedActivity activity_;
  TimePoint asked_ = system_clock().now();
};

}  // namespace

std::vector<std::string> RemoteFunctions::describe() const {
  std::vector<std::string> lines;
  for (const Function& function : functions) {
    lines.push_back(
        fmt::format("{}{}{}", function.name, function.options.training ? ", which trains" : "",
                    function.options.data ? fmt::format(", on {}", data_of(function).name) : ""));
  }
  return lines;
}

std::unique_ptr<Iterator> RemoteFunctions::open(const Data& of, int worker, int workers,
                                                uint64_t seed) const {
  if (of.divided) {
    const data::ReplicaPlace place{
        .num_input_pipelines = workers, .input_pipeline_id = worker, .in_sync = false};
    return data::distribute(of.divided->repeat(), place, seed, {.global_batches = true}).iterator;
  }
  const RandomKey key = derive_key(
      seed, {id_of("per_worker_dataset"), id_of(of.name), static_cast<uint64_t>(worker)});
  const Dataset dataset =
      of.make({.num_input_pipelines = workers, .input_pipeline_id = worker, .seed = key.key});
  return dataset.iterator({.seed = key.key});
}

Batch CallMaker::next_batch(const RemoteFunctions::Data& data) {
  std::unique_ptr<Iterator>& iterator = open_[data.name];
  if (!iterator) iterator = functions_.open(data, worker_, workers_, replica_.replica().seed());
  int without_rows = 0;
  while (const std::optional<Element> element = iterator->next()) {
    // At the end of a pass over data that is divided there may be rows for some workers alone.
    if (!data.divided || element->rows() > 0) return to_batch(*element);
    if (++without_rows < kPassesWithoutRows) continue;
    throw invalid_argument(fmt::format("{} has no part of the data set \"{}\"",
                                       replica_.replica().place().name(), data.name),
                           "start fewer workers, or make batches smaller");
  }
  throw invalid_argument(
      fmt::format("the data set \"{}\" is used up on {}", data.name,
                  replica_.replica().place().name()),
      "repeat() it in create_per_worker_dataset(), or schedule as many calls as it has batches");
}

RemoteReplica::Made CallMaker::make(const ps::Closure& closure) {
  const RemoteFunctions::Function* function = functions_.find(closure.function);
  if (function == nullptr) {
    throw not_found(fmt::format("there is no function \"{}\" here", closure.function),
                    "define it in every task");
  }
  if (!function->options.data) return replica_.call(*function, nullptr, closure.arguments);
  std::optional<Batch> batch;
  try {
    batch = next_batch(functions_.data_of(*function));
  } catch (const std::exception&) {
    return {.error = current_error()};
  }
  return replica_.call(*function, &*batch, closure.arguments);
}

void make_calls(const Strategy& strategy, const ps::ClosureOptions& options,
                const RemoteFunctions& functions, double restart_timeout) {
  ps::ClosureOptions patient = options;
  TimePoint last_progress = system_clock().now();
  while (true) {
    int64_t made = 0;
    try {
      return Worker(strategy, patient, functions, made).work();
    } catch (const Error& error) {
      if (made > 0) last_progress = system_clock().now();
      const double waited = to_seconds(system_clock().now() - last_progress);
      if (error.kind() != ErrorKind::kPeerLost || options.start.cancelled() ||
          waited >= restart_timeout)
        throw;
      log::warning(fmt::format("{}; this task will rejoin the run when all tasks are connected",
                               error.message()));
      patient.start.join_timeout = std::max(1.0, restart_timeout - waited);
    }
    system_clock().sleep_for(from_seconds(kBeforeRejoin));
  }
}

}  // namespace muster::inline v0_1::distribute
