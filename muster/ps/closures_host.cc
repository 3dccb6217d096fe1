#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/net/message_server.h"
#include "muster/plan/closure_queue.h"
#include "muster/plan/failure.h"
#include "muster/plan/membership.h"
#include "muster/ps/closures.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {
namespace {

using plan::ClosureQueue;

class Host final : public ClosureHost {
 public:
  explicit Host(ClosureHostOptions options)
      : options_(std::move(options)),
        queue_({.workers = cluster().num_workers,
                .capacity = options_.capacity,
                .max_attempts = options_.max_attempts},
               now()),
        members_({.heartbeat_timeout = options_.common.servers.heartbeat_timeout.count()}, now()),
        workers_(static_cast<size_t>(cluster().num_workers)),
        state_(options_.state),
        server_({.address = cluster().addresses.front(),
                 .job = cluster().job,
                 .task = cluster().task.name(),
                 .max_connections = kConnectionsEach * workers_.size(),
                 .idle_timeout_seconds = options_.common.servers.idle_timeout.count(),
                 .max_unproved_connections = kUnproved + kConnectionsEach * workers_.size()},
                [this](net::MessageSocket& socket) { serve(socket); }) {}

  ~Host() override { stop(); }

  std::shared_ptr<const ClosureResult> schedule(Closure closure) override {
    const std::lock_guard lock(mutex_);
    if (const auto failure = queue_.take_failure()) throw *failure;
    if (queue_.full()) return nullptr;
    auto result = std::make_shared<ClosureResult>();
    const int64_t call = queue_.schedule(closure.function);
    pending_[call] = {std::make_shared<const Closure>(std::move(closure)), result};
    note_change();
    return result;
  }

  std::optional<Error> take_failure() override {
    const std::lock_guard lock(mutex_);
    return queue_.take_failure();
  }

  int64_t unfinished() override {
    const std::lock_guard lock(mutex_);
    return queue_.unfinished();
  }

  void cancel(const Error& why) override {
    const std::lock_guard lock(mutex_);
    queue_.cancel(why);
    settle();
  }

  uint64_t wait_for_change(uint64_t seen, double seconds) override {
    std::unique_lock lock(mutex_);
    look();
    system_clock().wait_for(lock, changed_, from_seconds(seconds),
                            [&] { return changes_ != seen; });
    return changes_;
  }

  std::optional<Lonely> without_workers() override {
    const std::lock_guard lock(mutex_);
    const auto seconds = queue_.without_workers(now());
    if (!seconds) return std::nullopt;
    return Lonely{.seconds = *seconds, .came = !members_.all().empty()};
  }

  std::vector<Tensor> state() override {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  void close(double seconds) override {
    {
      std::unique_lock lock(mutex_);
      over_ = true;
      note_change();
      system_clock().wait_for(lock, changed_, from_seconds(seconds),
                              [&] { return members_.here() == 0; });
    }
    stop();
  }

 private:
  // The process of a worker that came last.
  struct Worker {
    int64_t call = 0;  // the last one it was given
    bool has_state = false;
  };
  // A call that has not ended.
  struct Pending {
    std::shared_ptr<const Closure> closure;
    std::shared_ptr<ClosureResult> result;
  };
  using Peer = net::Handshake;  // the process at the other end of a connection

  static double now() { return to_seconds(system_clock().now().time_since_epoch()); }
  const cluster::ResolvedCluster& cluster() const { return options_.common.start.cluster; }
  std::string name(int rank) const {
    return plan::readable_task(cluster().workers[static_cast<size_t>(rank)].name());
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      note_change();
    }
    server_.stop();
  }

  // --- with the lock held ---
  void note_change() {
    ++changes_;
    changed_.notify_all();
  }

  // Ended calls get their results; `tensors` belong to a call that is done.
  void settle(std::vector<Tensor> tensors = {}) {
    for (auto& ended : queue_.take_ended()) {
      const auto found = pending_.find(ended.call);
      const bool done = ended.outcome == ClosureQueue::Outcome::kDone;
      found->second.result->end(done ? std::move(tensors) : std::vector<Tensor>(),
                                std::move(ended.error));
      pending_.erase(found);
    }
    note_change();
  }

  Worker& worker(int rank) { return workers_[static_cast<size_t>(rank)]; }
  plan::Caller caller(const Peer& peer) const { return {name(peer.rank), peer.incarnation}; }
  bool is_here(const Peer& peer) const { return members_.is_here(caller(peer)); }

  void release(int rank) {
    queue_.leave(rank, now());
    settle();
  }

  void release_lost(int rank, const plan::Failure& lost) {
    const bool at_work = pending_.contains(worker(rank).call);
    if (!over_) {
      log::warning(fmt::format(
          "{} was lost: {}; {}", lost.task, lost.reason,
          at_work ? "the call it was making begins again elsewhere" : "the others go on"));
    }
    release(rank);
  }

  // A silent worker holds up no other.
  void look() {
    for (const plan::Failure& lost : members_.find_lost(now())) {
      int rank = 0;
      while (name(rank) != lost.task) ++rank;
      release_lost(rank, lost);
    }
  }

  // --- a connection ---
  void serve(net::MessageSocket& socket) {
    std::optional<Peer> peer;
    try {
      peer = welcome(socket);
    } catch (const Error& error) {
      log::warning("a worker was refused: " + error.message());
      refuse(socket, error);
      return;
    }
    if (!peer) return;
    try {
      while (const auto request = receive_message<calls::Request>(socket, kRequestTimeout)) {
        answer(*peer, socket, *request);
        if (std::holds_alternative<calls::Bye>(request->operation)) break;
      }
    } catch (const Error& error) {
      log::debug(
          fmt::format("the connection of {} has ended: {}", name(peer->rank), error.message()));
    }
    if (peer->purpose != net::Purpose::kCalls) return;
    const std::lock_guard lock(mutex_);
    if (const auto lost = members_.lose(caller(*peer), "its connection ended"))
      release_lost(peer->rank, *lost);
  }

  std::optional<Peer> welcome(net::MessageSocket& socket) {
    auto told = receive_message<Peer>(socket, options_.common.servers.idle_timeout.count());
    if (!told) return std::nullopt;
    const Peer& peer = *told;
    check_handshake(peer, cluster(), options_.common.servers);
    if (peer.definitions != options_.common.definitions) {
      throw invalid_argument(
          fmt::format("{} defines {}, the chief {}", peer.task, join_quoted(peer.definitions),
                      join_quoted(options_.common.definitions)),
          "start the same program with the same flags in every task");
    }
    if (peer.rank < 1 || peer.rank >= cluster().num_workers) {
      throw invalid_argument(fmt::format("a task of rank {} came for calls", peer.rank),
                             "give every task the same cluster in TF_CONFIG");
    }
    if (peer.purpose == net::Purpose::kCalls) {
      const std::lock_guard lock(mutex_);
      (void)members_.join(caller(peer), now());
      worker(peer.rank) = {};
      queue_.join(peer.rank, now());
      settle();
    }
    send_answer(socket, net::Welcome{options_.form});
    return told;
  }

  void answer(const Peer& peer, net::MessageSocket& socket, const calls::Request& request) {
    answer_or_error(socket, [&] {
      std::visit([&](const auto& asked) { answer(peer, socket, asked); }, request.operation);
    });
  }

  void answer(const Peer& peer, net::MessageSocket& socket, const calls::Made& made) {
    send_answer(socket, net::Truth{finish(peer, socket, made)});
  }

  void answer(const Peer& peer, net::MessageSocket& socket, const calls::Failed& failed) {
    send_answer(socket, net::Truth{fail(peer, failed)});
  }

  void answer(const Peer& peer, net::MessageSocket& socket, const calls::Beat&) {
    {
      const std::lock_guard lock(mutex_);
      (void)members_.heartbeat(caller(peer), now());
    }
    send_answer(socket, Done());
  }

  void answer(const Peer& peer, net::MessageSocket& socket, const calls::Bye&) {
    leave(peer);
    send_answer(socket, Done());
  }

  bool finish(const Peer& peer, net::MessageSocket& socket, const calls::Made& made) {
    std::vector<Tensor> results = receive_all(socket, made.results);
    std::vector<Tensor> state = receive_all(socket, made.state);
    const std::lock_guard lock(mutex_);
    if (!is_here(peer) || !queue_.finish(peer.rank, made.ticket)) return false;
    if (!state.empty()) state_ = std::move(state);
    settle(std::move(results));
    return true;
  }

  bool fail(const Peer& peer, const calls::Failed& failed) {
    const std::lock_guard lock(mutex_);
    if (!is_here(peer) || !queue_.fail(peer.rank, failed.ticket, failed.error)) return false;
    settle();
    return true;
  }

  void leave(const Peer& peer) {
    const std::lock_guard lock(mutex_);
    if (members_.goodbye(caller(peer))) release(peer.rank);
  }

  void answer(const Peer& peer, net::MessageSocket& socket, const calls::Next& asked) {
    std::shared_ptr<const Closure> closure;
    std::optional<ClosureQueue::Assignment> assignment;
    std::vector<Tensor> state;
    {
      std::unique_lock lock(mutex_);
      const double seconds = std::clamp(asked.wait, 0.0, kLongestWait);
      system_clock().wait_for(lock, changed_, from_seconds(seconds), [&] {
        if (closed_ || over_ || !is_here(peer)) return true;
        assignment = queue_.next(peer.rank);
        return assignment.has_value();
      });
      look();
      if (!is_here(peer)) {
        throw Error(ErrorKind::kPeerLost,
                    fmt::format("the chief took {} for lost", name(peer.rank)));
      }
      if (assignment) {
        worker(peer.rank).call = assignment->call;
        closure = pending_.at(assignment->call).closure;
        const bool first = !std::exchange(worker(peer.rank).has_state, true);
        if (first || options_.refreshed.contains(closure->function)) state = state_;
      }
    }
    if (closure == nullptr) return send_answer(socket, calls::Given{.over = over_});
    std::vector<Tensor> all = closure->arguments;
    all.insert(all.end(), state.begin(), state.end());
    send_answer(socket,
                calls::Given{.ticket = assignment->ticket,
                             .function = closure->function,
                             .arguments = forms_of(closure->arguments),
                             .state = forms_of(state)},
                all);
  }

  // A worker may make a call for as long as it lives.
  static constexpr double kRequestTimeout = 3600;
  static constexpr double kLongestWait = 5;
  // A worker has two, and for a moment those of an earlier process of it.
  static constexpr size_t kConnectionsEach = 4;
  static constexpr size_t kUnproved = 32;

  const ClosureHostOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 1;
  ClosureQueue queue_;
  std::map<int64_t, Pending> pending_;
  plan::Membership members_;
  std::vector<Worker> workers_;  // by rank; the chief never comes
  std::vector<Tensor> state_;    // each is written once
  std::atomic<bool> over_{false};
  bool closed_ = false;
  net::MessageServer server_;  // the first to go
};

}  // namespace

std::unique_ptr<ClosureHost> host_closures(ClosureHostOptions options) {
  return std::make_unique<Host>(std::move(options));
}

}  // namespace muster::inline v0_1::ps
