#include <torch/torch.h>

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/collectives/connect.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_server.h"
#include "muster/control/group.h"
#include "muster/distribute/coordinator_store.h"
#include "muster/distribute/internal/start_multi_worker.h"
#include "muster/distribute/internal/sync_session.h"
#include "muster/distribute/strategy.h"
#include "muster/net/port.h"

namespace muster::inline v0_1::distribute {
namespace {

using Clock = std::chrono::steady_clock;

// What the options leave open, the environment may settle.
Transport transport_of(const CommunicationOptions& options) {
  const auto name = Environment::process().get("MUSTER_TRANSPORT");
  if (options.implementation != Transport::kAuto || !name || name->empty()) {
    return options.implementation;
  }
  const auto transport = parse_transport(*name);
  if (!transport) {
    throw invalid_argument(fmt::format("MUSTER_TRANSPORT is '{}'", *name),
                           "use auto, gloo or shared_memory");
  }
  return *transport;
}

class MultiWorkerSession : public SyncSession {
 public:
  MultiWorkerSession(const StartOptions& start, const CommunicationOptions& options)
      : SyncSession(start.seed, options.bytes_per_pack, options.wire_dtype),
        cluster_(start.cluster),
        options_(options) {
    join(start);
    try {
      connect();
    } catch (const Error& error) {
      const Error cause = explain(error);
      fail(cause);
      client_->close();  // before what its callback refers to
      throw cause;
    }
  }

  ~MultiWorkerSession() override {
    // The client's watcher may be ending the communicator right now: it goes first.
    if (client_) client_->close();
    communicator_.reset();
    if (server_) server_->stop(finished_ ? 10 : 2);
  }

  int num_replicas_in_sync() const override { return cluster_.num_workers; }
  int replica_id() const override { return cluster_.rank; }
  bool is_chief() const override { return cluster_.is_chief; }
  std::string describe() const override {
    return fmt::format("MultiWorkerMirrored: {} ({} of {}{}) over {}",
                       plan::readable_task(cluster_.task.name()), cluster_.rank + 1,
                       cluster_.num_workers, cluster_.is_chief ? ", chief" : "",
                       communicator_->name());
  }

  std::vector<std::string> gather_text(const std::string& name, const std::string& text) override {
    return guarded([&] {
      const int64_t round = rounds_[name]++;
      const auto key = [&](int64_t round, int rank) {
        return fmt::format("text/{}/{}/{}", name, round, rank);
      };
      client_->set(key(round, replica_id()), text);
      // A task that makes no progress is found at a barrier, not while one waits for a key.
      client_->barrier("text/" + name);
      std::vector<std::string> all;
      for (int rank = 0; rank < num_replicas_in_sync(); ++rank) {
        all.push_back(client_->get(key(round, rank)));
      }
      // Everybody is in this round, so everybody has read the one before.
      if (round > 0) client_->erase(key(round - 1, replica_id()));
      return all;
    });
  }

  void declare_model(const std::vector<std::string>& signature) override {
    client_->declare_model(signature);
  }

  std::string share_text(const std::string& note) override {
    if (is_chief()) client_->set("state_note", note);
    return client_->get("state_note");
  }

  void await_failure() override {
    wait_until_known();
    client_->check_failure();
  }

  void report(Phase phase, int64_t step) override { client_->report(phase, step); }

  void barrier(const std::string& name) override {
    guarded([&] { client_->barrier(name); });
  }

  void finish() override {
    guarded([&] { client_->barrier("finish"); });
    finished_ = true;
    client_->done();
    client_->close();
  }

  void fail(const Error& error) noexcept override {
    // What another task's failure caused here is no news to the group.
    if (client_ && !finished_ && !client_->first_failure())
      client_->fail(error.kind(), error.message());
  }

  Error explain(const Error& error) override {
    if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kCancelled &&
        error.kind() != ErrorKind::kTimeout) {
      return error;
    }
    // A connection breaks at once when a peer dies; who died and why is known when the coordinator
    // has noticed.
    wait_until_known();
    if (client_) {
      if (const auto failure = client_->first_failure()) return control::to_error(*failure);
    }
    return error;
  }

 private:
  void wait_until_known() const {
    const auto deadline =
        Clock::now() + std::chrono::duration<double>(options_.heartbeat_timeout_seconds + 2);
    while (client_ && !client_->first_failure() && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void join(const StartOptions& start) {
    if (is_chief()) {
      control::ServerOptions server = control::server_options(cluster_);
      server.group.heartbeat_timeout = options_.heartbeat_timeout_seconds;
      server.group.progress_timeout = options_.progress_timeout_seconds;
      server_ = std::make_unique<control::CoordinatorServer>(server);
    }
    control::JoinOptions join = control::join_options(cluster_);
    join.join_deadline = start.join_timeout;
    join.cancelled = start.cancelled;
    join.heartbeat_interval = options_.heartbeat_seconds;
    join.heartbeat_timeout = options_.heartbeat_timeout_seconds;
    client_ = control::CoordinatorClient::join(join);
  }

  void connect() {
    store_ = std::make_unique<CoordinatorStore>(*client_, "communicator/");
    communicator_ = make_communicator({
        .transport = transport_of(options_),
        .rendezvous = store_.get(),
        .rank = cluster_.rank,
        .size = cluster_.num_workers,
        .address = net::split_address(cluster_.addresses[static_cast<size_t>(cluster_.rank)]).host,
        .group = fmt::format("epoch{}", client_->epoch()),
        .timeout = std::chrono::milliseconds(static_cast<int64_t>(options_.timeout_seconds * 1000)),
    });
    // A stopped peer would block a collective for ever: the watcher ends it.
    client_->on_failure([communicator = communicator_.get()](const control::Failure& failure) {
      communicator->abort(ErrorKind::kPeerLost, failure.describe());
    });
  }

  cluster::ResolvedCluster cluster_;
  CommunicationOptions options_;
  std::unique_ptr<control::CoordinatorServer> server_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::unique_ptr<CoordinatorStore> store_;
  std::map<std::string, int64_t> rounds_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<Session> start_multi_worker(const StartOptions& start,
                                            const CommunicationOptions& options) {
  return std::make_unique<MultiWorkerSession>(start, options);
}

}  // namespace muster::inline v0_1::distribute
