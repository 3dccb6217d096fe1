#include "muster/distribute/elastic_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "muster/control/coordinator_server.h"
#include "muster/distribute/replica_input.h"

namespace muster::inline v0_1::distribute {
namespace {

bool is_loss(ErrorKind kind) {
  return kind == ErrorKind::kPeerLost || kind == ErrorKind::kTimeout ||
         kind == ErrorKind::kCancelled || kind == ErrorKind::kUnavailable;
}

}  // namespace

ElasticRun::ElasticRun(int min_workers, std::string leader)
    : min_workers_(min_workers), leader_(std::move(leader)) {
  if (min_workers < 1) {
    throw invalid_argument(fmt::format("min_workers is {}", min_workers),
                           "an elastic run needs at least 1 worker, the chief");
  }
}

std::shared_ptr<ElasticRun> ElasticRun::of(const cluster::ResolvedCluster& cluster,
                                           const Strategy& strategy, int least) {
  if (least == 0 || !cluster.distributed() || !strategy.multi_worker() || strategy.needs_servers())
    return nullptr;
  if (least > cluster.num_workers) {
    throw invalid_argument(
        fmt::format("the run needs at least {} workers (RunConfig.min_workers, or "
                    "MUSTER_MIN_WORKERS), and its cluster has {}",
                    least, cluster.num_workers),
        "lower the minimum, or list all workers that may come in the cluster");
  }
  return std::make_shared<ElasticRun>(least, cluster.workers.front().name());
}

ElasticRun::~ElasticRun() {
  // As for a group that is not elastic: after a failure nobody waits long.
  constexpr double kEnded = 10, kFailed = 2;
  if (server_) server_->stop(ended_ ? kEnded : kFailed);
}

std::shared_ptr<control::CoordinatorServer> ElasticRun::server() const {
  const std::lock_guard lock(mutex_);
  return server_;
}

void ElasticRun::set_server(std::shared_ptr<control::CoordinatorServer> server) {
  const std::lock_guard lock(mutex_);
  server_ = std::move(server);
}

void ElasticRun::begin_joining() {
  const std::lock_guard lock(mutex_);
  failure_.reset();
}

void ElasticRun::begin_group(int64_t epoch, std::vector<std::string> tasks) {
  const std::lock_guard lock(mutex_);
  epoch_ = epoch;
  tasks_ = std::move(tasks);
  failure_.reset();
  ended_ = tries_newcomers_ = is_newcomer_ = false;
}

bool ElasticRun::has_made_steps() const {
  const std::lock_guard lock(mutex_);
  return has_made_steps_;
}

void ElasticRun::meet(const std::vector<bool>& was_here, int rank) {
  const std::lock_guard lock(mutex_);
  // The leader is the first of each group.
  tries_newcomers_ = was_here.front() && !std::ranges::all_of(was_here, std::identity());
  is_newcomer_ = tries_newcomers_ && !was_here[static_cast<size_t>(rank)];
}

bool ElasticRun::tries_newcomers() const {
  const std::lock_guard lock(mutex_);
  return tries_newcomers_;
}

bool ElasticRun::is_newcomer() const {
  const std::lock_guard lock(mutex_);
  return is_newcomer_;
}

bool ElasticRun::may_refuse_newcomers(const Error& error) const {
  const std::lock_guard lock(mutex_);
  const ErrorKind kind = failure_ ? failure_->kind : error.kind();
  return tries_newcomers_ && !is_newcomer_ && !is_loss(kind);
}

void ElasticRun::keep_newcomers() {
  const std::lock_guard lock(mutex_);
  tries_newcomers_ = is_newcomer_ = false;
  has_made_steps_ = true;
}

void ElasticRun::note_failure(const plan::Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

void ElasticRun::note_end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

int64_t ElasticRun::epoch() const {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

std::string ElasticRun::describe_group() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const std::string& task : tasks_) names.push_back(plan::readable_task(task));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool ElasticRun::has_newcomers() const {
  const auto served = server();
  return served && served->newcomers() > 0;
}

bool ElasticRun::goes_on_after(const Error& error) const {
  if (may_refuse_newcomers(error)) return true;
  const std::lock_guard lock(mutex_);
  if (error.kind() != ErrorKind::kPeerLost || !failure_) return false;
  // What is wrong with a program, its data or its model is wrong again with fewer workers.
  return is_loss(failure_->kind) && failure_->task != leader_;
}

std::string ElasticRun::describe_next() const {
  if (can_spare(1)) return "the run continues, from the memory of its workers";
  return fmt::format("the run waits until {} workers are here, and keeps its state in memory",
                     min_workers_);
}

bool ElasticRun::can_spare(int leaving) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(tasks_.size()) - leaving >= min_workers_;
}

Dataset divide_rows(const Dataset& dataset) {
  DatasetOptions how = dataset.options();
  if (how.auto_shard_policy != AutoShardPolicy::kAuto) return dataset;
  how.auto_shard_policy = AutoShardPolicy::kData;
  return dataset.with_options(how);
}

void check_divided(const ReplicaInput& input) {
  if (!input.by_process()) return;
  throw invalid_argument(
      "not supported: an elastic run with data that each worker reads by itself (an input "
      "function with an InputContext, a shard(), AutoShardPolicy::kFile, kOff or kHint): when a "
      "worker is lost, the examples it had left are unknown",
      "let Muster divide the rows: an input function without InputContext that describes all "
      "data, with AutoShardPolicy::kData or kAuto; or train without a minimum of workers");
}

}  // namespace muster::inline v0_1::distribute
