#include "muster/ps/parameter_server.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/distribute/group.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/plan/activity.h"
#include "muster/plan/failure.h"
#include "muster/ps/internal/server_connections.h"
#include "muster/ps/internal/server_updater.h"
#include "muster/ps/internal/worker_run.h"
#include "muster/ps/server.h"

namespace muster::inline v0_1 {
namespace ps {
namespace {

// The group of a worker that trains at its own pace: it meets only the servers.
class ServersGroup final : public distribute::Group {
 public:
  ServersGroup(std::shared_ptr<ServerConnections> connections, WorkerRun& run)
      : connections_(std::move(connections)), run_(run) {}

  std::vector<std::string> gather_text(const std::string&, const std::string& text) override {
    connections_->check_failure();
    return {text};
  }
  void declare_model(const std::vector<std::string>& lines) override { run_.set_model(lines); }
  void barrier(const std::string&) override { connections_->check_failure(); }
  void finish() override {
    run_.stop_push();
    finished_ = true;
    connections_->finish();
  }
  void report(distribute::Phase phase, int64_t step) override {
    plan::this_activity().report(phase, step);
    connections_->report(phase, step);
  }
  void fail(const Error& error) noexcept override {
    const ErrorKind kind = error.kind();
    // A task that lost the others may return, and a task that was asked to stop may be restarted.
    const bool may_return = kind == ErrorKind::kPeerLost || kind == ErrorKind::kTimeout ||
                            kind == ErrorKind::kUnavailable || kind == ErrorKind::kCancelled;
    run_.stop_push();
    // A run that has failed does so for servers that do not know it yet as well.
    if (!finished_ && (!may_return || connections_->failure())) connections_->fail(error);
  }
  void check_failure() override { connections_->check_failure(); }
  void await_failure() override { connections_->check_failure(); }
  Error explain(const Error& error) override {
    return error.kind() == ErrorKind::kPeerLost ? connections_->failure().value_or(error) : error;
  }

 private:
  const std::shared_ptr<ServerConnections> connections_;
  WorkerRun& run_;
  bool finished_ = false;
};

void check_options(const distribute::ParameterServerOptions& options) {
  if (options.max_staleness && *options.max_staleness < 0) {
    throw invalid_argument(
        fmt::format("ParameterServerOptions.max_staleness is {}", *options.max_staleness),
        "0 keeps all workers within a step of the slowest; leave it unset for no limit");
  }
  if (options.wire_dtype != kFloat32 && options.wire_dtype != kBFloat16) {
    throw invalid_argument(
        fmt::format("ParameterServerOptions.wire_dtype is {}", dtype_name(options.wire_dtype)),
        "use kFloat32 or kBFloat16");
  }
  if (options.replicas_to_aggregate < 0) {
    throw invalid_argument(fmt::format("ParameterServerOptions.replicas_to_aggregate is {}",
                                       options.replicas_to_aggregate),
                           "give the number of workers whose gradients make an update; 0 for "
                           "updates of each worker by itself");
  }
  if (options.replicas_to_aggregate > 0 && options.max_staleness) {
    throw invalid_argument(
        "ParameterServerOptions has both replicas_to_aggregate and max_staleness",
        "leave max_staleness unset: workers that make updates together are never apart");
  }
  if (options.overlap && options.replicas_to_aggregate > 0) {
    throw invalid_argument(
        "ParameterServerOptions has both overlap and replicas_to_aggregate",
        "leave overlap out: weights that come while a step is computed are those of an earlier "
        "update");
  }
  if (options.overlap && options.max_staleness && *options.max_staleness == 0) {
    throw invalid_argument("ParameterServerOptions has overlap, and a max_staleness of 0",
                           "raise max_staleness to 1 or more: weights that come while a step is "
                           "computed are older by a step");
  }
  for (const auto& [field, time] : {std::pair{"heartbeat_interval", options.heartbeat_interval},
                                    std::pair{"heartbeat_timeout", options.heartbeat_timeout},
                                    std::pair{"restart_timeout", options.restart_timeout},
                                    std::pair{"idle_timeout", options.idle_timeout}}) {
    if (time.count() > 0) continue;
    throw invalid_argument(fmt::format("ParameterServerOptions.{} is {} s", field, time.count()),
                           "it must be more than 0");
  }
  if (options.heartbeat_timeout <= options.heartbeat_interval) {
    throw invalid_argument(
        fmt::format("ParameterServerOptions.heartbeat_timeout is {} s, and a heartbeat comes every "
                    "{} s",
                    options.heartbeat_timeout.count(), options.heartbeat_interval.count()),
        "make it several times heartbeat_interval");
  }
}

class ParameterServer final : public distribute::Strategy {
 public:
  explicit ParameterServer(distribute::ParameterServerOptions options)
      : options_(std::move(options)) {
    check_options(options_);
  }

  std::string_view name() const override { return "ParameterServer"; }
  bool multi_worker() const override { return false; }
  const distribute::ParameterServerOptions* servers() const override { return &options_; }
  Device device() const override { return at::kCPU; }
  Seconds restart_timeout() const override { return options_.restart_timeout; }

  std::vector<std::unique_ptr<distribute::Replica>> start_replicas(
      const distribute::StartOptions& start) const override {
    const cluster::ResolvedCluster& cluster = start.cluster;
    if (cluster.addresses.empty()) return distribute::one_device()->start_replicas(start);
    if (cluster.task.type == "ps") {
      throw invalid_argument(
          fmt::format("{} only serves the others", plan::readable_task(cluster.task.name())),
          "call Estimator::train() or train_and_evaluate() in it, as in the other tasks");
    }
    if (cluster.num_ps == 0) {
      throw invalid_argument(
          "TF_CONFIG lists no parameter servers, which ParameterServer needs",
          "add \"ps\" to \"cluster\" in TF_CONFIG of every task, and start them (muster run "
          "--chief "
          "--workers=2 --ps=2 -- PROGRAM starts a cluster here); or take --strategy=multi_worker, "
          "where the program has that flag, in its source .train_distribute = "
          "distribute::multi_worker_mirrored()");
    }
    if (options_.replicas_to_aggregate > cluster.num_workers) {
      throw invalid_argument(
          fmt::format(
              "ParameterServerOptions.replicas_to_aggregate is {}, and there are {} workers, "
              "the chief among them",
              options_.replicas_to_aggregate, cluster.num_workers),
          "each brings one gradient to an update: give their number, or less");
    }
    const std::string task = plan::readable_task(cluster.task.name());
    auto connections = std::make_shared<ServerConnections>(start, options_, start.join_timeout);
    auto run = std::make_unique<WorkerRun>(connections);
    distribute::ReplicaParts parts{
        .place = {.process = cluster.rank,
                  .processes = cluster.num_workers,
                  .in_chief_process = cluster.is_chief,
                  .task = task,
                  .in_sync = false},
        .title = fmt::format("ParameterServer: {} ({} of {}{}) with {} parameter server(s)", task,
                             cluster.rank + 1, cluster.num_workers,
                             cluster.is_chief ? ", chief" : "", cluster.num_ps),
        .seed = start.seed,
        .rows_elsewhere = true};
    parts.group = std::make_unique<ServersGroup>(connections, *run);
    parts.exchange = distribute::make_lone_exchange();
    parts.updater = make_server_updater(std::move(run), options_.replicas_to_aggregate > 0);
    std::vector<std::unique_ptr<distribute::Replica>> replicas;
    replicas.push_back(std::make_unique<distribute::Replica>(std::move(parts)));
    return replicas;
  }

  void serve(const distribute::StartOptions& start,
             const distribute::BuildModel& build) const override {
    ps::serve(start, options_, build);
  }

 private:
  const distribute::ParameterServerOptions options_;
};

}  // namespace
}  // namespace ps

distribute::StrategyPtr distribute::parameter_server(const ParameterServerOptions& options) {
  return std::make_shared<ps::ParameterServer>(options);
}

}  // namespace muster::inline v0_1
