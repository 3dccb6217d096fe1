#include "muster/distribute/internal/cluster_process_group.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/network_interfaces.h"
#include "muster/base/process_identity.h"
#include "muster/base/strings.h"
#include "muster/cluster/elastic.h"
#include "muster/collectives/connect.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_options.h"
#include "muster/control/coordinator_server.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/coordinator_store.h"
#include "muster/distribute/elastic_run.h"
#include "muster/distribute/internal/different_calls.h"
#include "muster/distribute/internal/shared_cores.h"
#include "muster/distribute/internal/stop_watch.h"
#include "muster/distribute/start_failure.h"
#include "muster/net/port.h"
#include "muster/plan/failure.h"

namespace muster::inline v0_1::distribute {
namespace {

using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

// What the options leave open, the environment may settle.
Transport transport_of(const CommunicationOptions& options) {
  const auto name = Environment::process().get("MUSTER_TRANSPORT");
  if (options.implementation != Transport::kAuto || !name || name->empty()) {
    return options.implementation;
  }
  const auto transport = parse_transport(*name);
  if (!transport) {
    throw invalid_argument(fmt::format("MUSTER_TRANSPORT is '{}'", *name),
                           "use auto, shared_memory, tcp (or ring) or nccl");
  }
  return *transport;
}

// What must be the same on all tasks: they would wait for each other in vain, or add up numbers
// that were rounded in different ways.
Settings settings_of(const CommunicationOptions& options) {
  const auto& bytes = options.bytes_per_pack;
  return {{"transport", std::string(transport_name(transport_of(options)))},
          {"wire_dtype", dtype_name(options.wire_dtype)},
          {"bytes_per_pack", bytes ? std::to_string(*bytes) : "measured"}};
}

// The groups that tasks of this process were in last, and that ended well, by their coordinator's
// address and the task: the processes of all of them, by rank.
class GroupsOfBefore {
 public:
  std::vector<ProcessIdentity> find(const std::string& address, const std::string& task) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find({address, task});
    return known == known_.end() ? std::vector<ProcessIdentity>() : known->second;
  }
  // None: the group did not end well.
  void set(const std::string& address, const std::string& task,
           const std::vector<ProcessIdentity>& processes) {
    const std::lock_guard lock(mutex_);
    known_[{address, task}] = processes;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::vector<ProcessIdentity>> known_;
};

GroupsOfBefore& groups_of_before() {
  static auto* const groups = new GroupsOfBefore;
  return *groups;
}

// Of the members of an elastic run: a worker that is given up too early joins again, and a step
// waits for one that is lost.
constexpr double kElasticReconnect = 0.3;

// Keys of the coordinator, which any thread may use while the group lives.
class ClusterMailbox final : public Mailbox {
 public:
  ClusterMailbox(control::CoordinatorClient& client, Seconds patience)
      : client_(&client), patience_(patience) {}
  // The client is closed, and may be destroyed when this returns.
  void end() {
    const std::lock_guard lock(mutex_);
    client_ = nullptr;
  }

  void put(const std::string& key, const std::string& text) override {
    ask([&](control::CoordinatorClient& client) { client.set(kPrefix + key, text); });
  }
  std::string take(const std::string& key) override {
    constexpr Seconds kLongestPause{0.05};
    const auto end = SteadyClock::now() + patience_;
    for (Seconds pause{0.002};; pause = std::min(2 * pause, kLongestPause)) {
      std::optional<std::string> text;
      ask([&](control::CoordinatorClient& client) {
        // A wait for the key would end with a request to stop.
        if (!client.check({kPrefix + key})) return;
        text = client.get(kPrefix + key);
        client.erase(kPrefix + key);
      });
      if (text) return *text;
      if (SteadyClock::now() > end) {
        throw Error(ErrorKind::kTimeout,
                    fmt::format("no task has sent '{}' within {:.0f} s", key, patience_.count()),
                    "set CommunicationOptions.save_timeout higher if saving takes long");
      }
      std::this_thread::sleep_for(pause);
    }
  }

 private:
  static constexpr const char* kPrefix = "mailbox/";

  void ask(const std::function<void(control::CoordinatorClient& client)>& request) {
    const std::lock_guard lock(mutex_);
    if (client_ == nullptr) throw Error(ErrorKind::kPeerLost, "the group of workers has ended");
    try {
      request(*client_);
    } catch (const Error& error) {
      const bool over = client_->first_failure() || error.kind() == ErrorKind::kCancelled;
      throw Error(over ? ErrorKind::kPeerLost : error.kind(), error.message(), error.hint());
    }
  }

  std::mutex mutex_;
  control::CoordinatorClient* client_;
  const Seconds patience_;
};

// Those workers of `all` that have these ranks, "0,2,3", and the place of this task among them.
cluster::ResolvedCluster part_of(const cluster::ResolvedCluster& all, const std::string& ranks) {
  cluster::ResolvedCluster part = all;
  part.workers.clear();
  part.addresses.clear();
  for (const std::string& text : split(ranks, ',')) {
    const auto rank = parse_int(text);
    if (!rank || *rank < 0 || *rank >= std::ssize(all.workers))
      throw internal_error(fmt::format("the coordinator sent '{}' as the ranks of a group", ranks));
    if (*rank == all.rank) part.rank = static_cast<int>(part.workers.size());
    part.workers.push_back(all.workers[static_cast<size_t>(*rank)]);
    part.addresses.push_back(all.addresses[static_cast<size_t>(*rank)]);
  }
  part.num_workers = static_cast<int>(part.workers.size());
  return part;
}

// Of a chief that was told to stop: others that wait ask again within it.
constexpr double kGoodbyeTimeout = 0.6;

class JoinedCluster final : public ClusterProcessGroup {
 public:
  JoinedCluster(const StartOptions& start, const CommunicationOptions& options)
      : cluster_(start.cluster),
        call_(start.call),
        options_(options),
        cancelled_(start.cancelled),
        elastic_(start.elastic) {
    if (elastic_) {
      server_ = elastic_->server();
    } else {
      warn_of_minimum();
    }
    if (cluster_.is_chief && !server_) {
      control::ServerOptions server = control::server_options(cluster_);
      server.group.heartbeat_timeout = options_.heartbeat_timeout.count();
      server.group.progress_timeout = options_.progress_timeout.count();
      server.group.save_timeout = options_.save_timeout.count();
      if (elastic_) {
        server.group.min_members = elastic_->min_workers();
        server.group.reconnect_timeout = kElasticReconnect;
      }
      server_ = std::make_shared<control::CoordinatorServer>(server);
      if (elastic_) elastic_->set_server(server_);
    }
    control::JoinOptions join = control::join_options(cluster_);
    join.join_timeout = start.join_timeout;
    join.cancelled = start.cancelled;
    join.heartbeat_interval = options_.heartbeat_interval.count();
    join.heartbeat_timeout = options_.heartbeat_timeout.count();
    join.call = start.call;
    const auto before = groups_of_before().find(join.address, join.task);
    // A worker of an elastic run that has ended is not waited for.
    join.again = !before.empty() && !elastic_;
    if (!elastic_)
      join.ended = [this, before](const std::string& task) { return rank_of_ended(task, before); };
    note_group_ = [address = join.address,
                   task = join.task](const std::vector<ProcessIdentity>& processes) {
      groups_of_before().set(address, task, processes);
    };
    if (elastic_) {
      elastic_->begin_joining();
      join.lost_timeout = join.heartbeat_timeout + join.reconnect_timeout;
      join.answered_before = elastic_->epoch() >= 0;
    }
    if (server_) join.last_refusal = [this] { return server_->last_refusal(); };
    note_joining();
    try {
      client_ = control::CoordinatorClient::join(join);
    } catch (...) {
      // The next group had failed before this task heard that it was formed.
      if (elastic_) elastic_->note_failure({.reason = "a member was lost while the group formed"});
      // Those who wait for the group learn at their next call why it does not form.
      if (server_ && !elastic_)
        server_->stop(told_to_stop() ? kGoodbyeTimeout : 2 * join.poll_interval);
      throw;
    }
    note_group_({});
    if (elastic_) take_members();
    log::debug("joined; connecting to the other tasks");
    store_ = std::make_unique<CoordinatorStore>(*client_, "communicator/");
    mailbox_ = std::make_shared<ClusterMailbox>(*client_, options_.save_timeout);
    // A stopped peer would block a collective for ever: the watcher ends it.
    client_->on_failure([this](const control::Failure& failure) {
      if (elastic_) elastic_->note_failure(failure);
      end_collectives(Error(ErrorKind::kPeerLost, failure.describe()));
    });
    if (start.cancelled)
      stop_watch_.emplace(start.cancelled, join.stop_timeout, [this](const Error& error) {
        client_->fail(error.kind(), error.message());
        end_collectives(error);
      });
  }

  ~JoinedCluster() override {
    stop_watch_.reset();
    note_failure();
    client_->close(elastic_ && told_to_stop());  // before what its callback refers to
    mailbox_->end();
    if (server_ && !elastic_) server_->stop(finished_ ? 10 : 2);
  }

  const cluster::ResolvedCluster& members() const override { return cluster_; }

  std::unique_ptr<Communicator> connect(const ReplicaPlace& place) override {
    return make_communicator({
        .transport = transport_of(options_),
        .rendezvous = store_.get(),
        .rank = place.replica(),
        .size = place.replicas(),
        .device = place.device,
        .address = own_host(),
        .group = fmt::format("epoch{}", client_->epoch()),
        .timeout =
            std::chrono::duration_cast<std::chrono::milliseconds>(from_seconds(options_.timeout)),
        .check_failure = [this] { check_connecting(); },
    });
  }

  void check_options(const std::vector<Device>& devices) override {
    if (elastic_) meet_newcomers();
    check_calls();
    check_same([this](const std::string& name,
                      const std::string& text) { return gather_text(name, text); },
               name_of(cluster_.rank), settings_of(options_));
    check_local_replicas(devices);
    warn_of_shared_cores(gather_text("host", describe_host()), cluster_);
  }

  std::vector<std::string> gather_text(const std::string& name, const std::string& text) override {
    const int64_t round = rounds_[name]++;
    const auto key = [&](int64_t round, int rank) {
      return fmt::format("text/{}/{}/{}", name, round, rank);
    };
    client_->set(key(round, cluster_.rank), text);
    // A task that makes no progress is found at a barrier, not while one waits for a key.
    client_->barrier("text/" + name);
    std::vector<std::string> all;
    for (int rank = 0; rank < cluster_.num_workers; ++rank) {
      all.push_back(client_->get(key(round, rank)));
    }
    // Everybody is in this round, so everybody has read the one before.
    if (round > 0) client_->erase(key(round - 1, cluster_.rank));
    return all;
  }

  void declare_model(const std::vector<std::string>& signature) override {
    // The others come first: a model that differs is then a newcomer's.
    const bool waits = elastic_ && elastic_->tries_newcomers();
    const bool is_last = waits && elastic_->is_newcomer();
    if (is_last) client_->barrier("declared");
    client_->declare_model(signature);
    if (waits && !is_last) client_->barrier("declared");
  }

  void barrier(const std::string& name) override { client_->barrier(name); }

  void finish() override {
    client_->last_barrier();
    finished_ = true;
    if (elastic_) elastic_->note_end();
    note_group_(processes_);
    stop_watch_.reset();
    client_->done();
    client_->close();
  }

  std::shared_ptr<Mailbox> mailbox() override { return mailbox_; }

  void report(plan::Phase phase, int64_t step) override {
    if (stop_watch_) stop_watch_->note_progress(phase);
    client_->report(phase, step);
  }

  void fail(const Error& error) noexcept override {
    // A newcomer that differs reports it itself: then the others wait for no task but each other.
    constexpr auto kReport = std::chrono::seconds(1);
    if (elastic_ && elastic_->may_refuse_newcomers(error)) {
      const auto end = SteadyClock::now() + kReport;
      while (!client_->first_failure() && SteadyClock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    // What another task's failure caused here is no news to the group.
    if (!finished_ && !client_->first_failure()) client_->fail(error.kind(), error.message());
  }

  void on_failure(std::function<void(const Error&)> callback) override {
    std::optional<Error> known;
    {
      const std::lock_guard lock(mutex_);
      callbacks_.push_back(callback);
      known = failure_;
    }
    if (known) callback(*known);
  }

  void check_failure() const override { client_->check_failure(); }

  void await_failure(const std::function<bool()>& enough) const override {
    await_failure(enough, [] {});
  }

  Error explain(const Error& error, const std::function<bool()>& enough) const override {
    if (error.kind() == ErrorKind::kCancelled && told_to_stop()) return error;
    if (error.kind() != ErrorKind::kPeerLost && error.kind() != ErrorKind::kCancelled &&
        error.kind() != ErrorKind::kTimeout) {
      return error;
    }
    if (error.kind() == ErrorKind::kTimeout) return with_who_is_missing(error);
    // A connection breaks at once when a peer dies; who died and why is known when the coordinator
    // has noticed. All may live: then the coordinator must learn of the connection.
    const bool reports = error.kind() == ErrorKind::kPeerLost;
    await_failure(enough, [&] {
      if (reports) client_->report_lost_connection(error.message());
    });
    note_failure();
    const auto failure = client_->first_failure();
    return failure ? control::to_error(*failure) : error;
  }

 private:
  // Calls `report` while it waits: again and again, because a report may be lost too.
  void await_failure(const std::function<bool()>& enough,
                     const std::function<void()>& report) const {
    constexpr auto kReportEvery = std::chrono::seconds(1);
    constexpr auto kLook = std::chrono::milliseconds(20);
    const auto deadline = SteadyClock::now() + options_.heartbeat_timeout + std::chrono::seconds(2);
    auto next_report = SteadyClock::now() + kLook;
    while (!client_->first_failure() && !enough() && SteadyClock::now() < deadline) {
      if (SteadyClock::now() >= next_report) {
        next_report = SteadyClock::now() + kReportEvery;
        report();
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  // A launcher that lets a run continue with fewer workers expects it of this call, too.
  void warn_of_minimum() const {
    if (!cluster_.is_chief || cluster_.num_workers < 2) return;
    const int least = cluster::min_workers(Environment::process(), cluster_.source);
    if (least == 0) return;
    log::warning_once(fmt::format(
        "{} is not elastic: it needs all {} workers, and a lost worker ends it, although "
        "the launcher asks for at least {}; elastic are Estimator::train(), and fit() of a "
        "keras::Model outside of a scope",
        call_, cluster_.num_workers, least));
  }

  void note_failure() const {
    if (const auto failure = elastic_ ? client_->first_failure() : std::nullopt)
      elastic_->note_failure(*failure);
  }

  void meet_newcomers() {
    std::vector<bool> was_here;
    for (const std::string& text : gather_text("groups before", was_here_ ? "1" : ""))
      was_here.push_back(!text.empty());
    elastic_->meet(was_here, cluster_.rank);
  }

  // The group has a part of the cluster's workers.
  void take_members() {
    try {
      cluster_ = part_of(cluster_, client_->get(plan::kMembersKey));
    } catch (const Error&) {
      note_failure();  // it has failed already
      throw;
    }
    std::vector<std::string> tasks;
    for (const cluster::Task& task : cluster_.workers) tasks.push_back(task.name());
    was_here_ = elastic_->has_made_steps();
    elastic_->begin_group(client_->epoch(), std::move(tasks));
  }

  // Where the others find this task: as the cluster says, or else at the interface that leads to
  // the coordinator, which has just been reached. A worker of an elastic run may come from another
  // machine than the cluster says.
  std::string own_host() const {
    const std::string& given = cluster_.addresses[static_cast<size_t>(cluster_.rank)];
    const std::string host = net::split_address(cluster_.coordinator_address).host;
    if (!given.empty()) return host_for_peers(net::split_address(given).host, host);
    std::string why_not;
    std::string own = own_address_towards(host, &why_not);
    if (!own.empty()) return own;
    throw not_found(
        fmt::format("no address of this machine leads to {}, the coordinator's: {}", host, why_not),
        "check the route to it and its name, which MASTER_ADDR gives where it is set");
  }

  std::string name_of(int rank) const {
    return plan::readable_task(cluster_.workers[static_cast<size_t>(rank)].name());
  }

  std::optional<int> rank_of_ended(const std::string& task,
                                   const std::vector<ProcessIdentity>& before) const {
    for (size_t rank = 0; rank < before.size() && rank < cluster_.workers.size(); ++rank) {
      if (cluster_.workers[rank].name() == task && has_ended(before[rank]))
        return static_cast<int>(rank);
    }
    return std::nullopt;
  }

  // All tasks have come to the same call of their programs; notes their processes.
  void check_calls() {
    const ProcessIdentity own = own_process();
    const json mine{{"call", call_}, {"space", own.space}, {"process", own.process}};
    for (const std::string& text : gather_text("call", mine.dump())) {
      const json other = json::parse(text);
      processes_.push_back({other.at("space"), other.at("process")});
      if (other.at("call") == mine.at("call")) continue;
      throw different_calls({name_of(cluster_.rank), call_},
                            {name_of(static_cast<int>(processes_.size()) - 1), other.at("call")});
    }
  }

  void check_local_replicas(const std::vector<Device>& devices) {
    const std::string mine =
        std::to_string(devices.size()) +
        (devices[0].is_cpu() ? std::string()
                             : fmt::format(" on {}", c10::DeviceTypeName(devices[0].type(), true)));
    const std::vector<std::string> all = gather_text("local_replicas", mine);
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      throw invalid_argument(
          fmt::format("{} trains {} local replicas, {} trains {}", name_of(0), all[0],
                      name_of(static_cast<int>(rank)), all[rank]),
          "set CommunicationOptions.local_replicas, or .devices, to as many of one kind on every "
          "task");
    }
  }

  bool told_to_stop() const { return cancelled_ && cancelled_(); }

  // While there is no communicator yet: what its watchers would do.
  void check_connecting() const {
    client_->check_failure();
    if (told_to_stop()) throw Error(ErrorKind::kCancelled, "stopped while connecting");
  }

  void end_collectives(const Error& error) {
    std::vector<std::function<void(const Error&)>> callbacks;
    {
      const std::lock_guard lock(mutex_);
      failure_ = error;
      callbacks = callbacks_;
    }
    for (const auto& callback : callbacks) callback(error);
  }

  // A task that gives up a collective enters a barrier; the coordinator knows where the others are.
  Error with_who_is_missing(const Error& timeout) const {
    constexpr double kSeconds = 3;
    if (const auto failure = client_->first_failure()) return control::to_error(*failure);
    const std::unique_lock lock(asking_, std::try_to_lock);
    if (!lock) return timeout;  // another replica of this process asks
    try {
      client_->barrier("after a time-out", kSeconds);
      return timeout;
    } catch (const Error& missing) {
      if (const auto failure = client_->first_failure()) return control::to_error(*failure);
      return Error(timeout.kind(), fmt::format("{}; {}", timeout.message(), missing.message()),
                   timeout.hint());
    }
  }

  cluster::ResolvedCluster cluster_;  // the members
  const std::string call_;
  const CommunicationOptions options_;
  const std::function<bool()> cancelled_;
  const std::shared_ptr<ElasticRun> elastic_;  // nullptr: all workers of the cluster
  bool was_here_ = false;                      // in an earlier group of it
  mutable std::mutex asking_;
  std::shared_ptr<control::CoordinatorServer> server_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::unique_ptr<CoordinatorStore> store_;
  std::shared_ptr<ClusterMailbox> mailbox_;
  std::map<std::string, int64_t> rounds_;
  std::atomic<bool> finished_ = false;
  std::vector<ProcessIdentity> processes_;  // by rank
  // Notes the processes of this group for the next one of these tasks.
  std::function<void(const std::vector<ProcessIdentity>&)> note_group_;

  std::mutex mutex_;
  std::vector<std::function<void(const Error&)>> callbacks_;
  std::optional<Error> failure_;
  std::optional<StopWatch> stop_watch_;  // last: it uses what is above
};

}  // namespace

std::shared_ptr<ClusterProcessGroup> ClusterProcessGroup::join(
    const StartOptions& start, const CommunicationOptions& options) {
  return std::make_shared<JoinedCluster>(start, options);
}

}  // namespace muster::inline v0_1::distribute
