// Parameter servers in simulated time: the real ledger, with the same steps around it as in
// shard_server.cc and server.cc. Processes and messages belong to the caller, which decides when
// they come and go. Thread safety: one thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/ps/internal/ledger_host.h"
#include "muster/ps/internal/wire.h"

namespace muster::inline v0_1::ps {

// How often each example of a worker is in the weights.
using Weights = std::map<std::pair<int, int64_t>, int>;

// A fault of the protocol: thrown.
struct Broken {
  std::string what;
};
inline void require(bool holds, const char* what) {
  if (!holds) throw Broken{what};
}

// Events in the order of their times; of the same time, in that in which they were made.
class Agenda {
 public:
  explicit Agenda(uint32_t seed) : random_(seed) {}

  double now() const { return now_; }
  void after(double seconds, std::function<void()> event) {
    events_.emplace(std::pair(now_ + seconds, next_++), std::move(event));
  }
  bool empty() const { return events_.empty(); }
  void step(ManualClock& clock) {
    auto first = events_.extract(events_.begin());
    clock.advance(from_seconds(first.key().first - now_));
    now_ = first.key().first;
    first.mapped()();
  }
  int draw(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  double uniform(double from, double to) { return from + (to - from) * draw(1000) / 1000; }
  // How long messages are on their way; now and then they are late.
  double delay() { return draw(20) == 0 ? uniform(0, 2) : uniform(0, 0.02); }

 private:
  std::mt19937 random_;
  double now_ = 0;
  uint64_t next_ = 0;
  std::map<std::pair<double, uint64_t>, std::function<void()>> events_;
};

// The parameters of a run.
struct Setting {
  int workers = 1;
  int servers = 1;
  std::optional<int64_t> last_step{};  // otherwise the data ends
  int64_t rows = 0;                    // of each worker
  std::optional<int64_t> max_staleness{};
  int aggregate = 0;
  bool overlap = false;  // workers compute a step while the one before is on its way
  int faults = 0;
};

struct SimulatedCheckpoint {
  int64_t step = 0;
  std::vector<std::string> positions{};
  Weights weights{};
};

// The gradients of an example, represented by its number.
inline shards::Push push_of(int64_t ticket, int64_t example) {
  return {.ticket = ticket, .dense = {static_cast<uint64_t>(example)}};
}
inline int64_t example_of(const shards::Push& push) {
  return static_cast<int64_t>(push.dense.front());
}

// Where a worker is in its data.
inline int64_t row_of(const std::string& position) {
  return position.empty() ? 0 : std::stoll(position);
}

// The answer of the ledger.
template <typename Operation>
concept OfLedger = requires(LedgerHost& host, const LedgerHost::Asker& who,
                            const Operation& asked) {
  host.answer(who, asked);
};

class SimulatedServers {
 public:
  // The servers are up from the beginning. The chief writes `saved` to them.
  SimulatedServers(const Setting& setting, Agenda& agenda, ManualClock& clock,
                   const SimulatedCheckpoint& saved)
      : setting_(setting),
        agenda_(agenda),
        clock_(clock),
        saved_(saved),
        servers_(static_cast<size_t>(setting.servers)) {
    for (size_t s = 0; s < servers_.size(); ++s) start(s);
    look();
  }

  // A worker's process between two losses: its connections to all servers.
  struct Caller {
    int rank = 0;
    uint64_t incarnation = 0;
    bool over = false;            // the process has released them, or is dead
    std::vector<int> life{};      // of the servers it has met
    std::vector<bool> at_work{};  // [server]: a request of its is being answered
  };
  using CallerPtr = std::shared_ptr<Caller>;
  // Takes an answer; nothing if the asker learns that something is lost.
  template <typename Operation>
  using Next = std::function<void(const std::optional<net::AnswerTo<Operation>>&)>;

  size_t size() const { return servers_.size(); }
  bool all_up() const {
    return std::ranges::all_of(servers_, [](const Server& server) { return server.up; });
  }
  // REQUIRES: all_up()
  void connect(Caller& caller) {
    for (size_t s = 0; s < servers_.size(); ++s) {
      caller.life.push_back(servers_[s].life);
      newest_[{s, caller.rank}] = caller.incarnation;
    }
    caller.at_work.assign(servers_.size(), false);
  }
  // Whether the connection still leads to the process it was made to.
  bool reaches(const Caller& caller, size_t s) const {
    return servers_[s].up && servers_[s].life == caller.life[s];
  }
  // Answers a request that has come, within a second where the answer is that it waits.
  template <typename Operation>
  void ask(size_t s, const CallerPtr& caller, int64_t generation, const Operation& asked,
           const Next<Operation>& answer) {
    if constexpr (OfLedger<Operation>) {
      handle<Operation>(caller, generation, asked, agenda_.now() + 1, answer);
    } else {
      respond(s, caller, generation, asked, answer);
    }
  }
  // The end of a connection is seen.
  void left(const CallerPtr& caller, size_t s) {
    if (!reaches(*caller, s)) return;
    if (newest_[{s, caller->rank}] == caller->incarnation) settle(s, caller->rank, true);
    if (s == 0) servers_[0].host->leave(caller->rank, caller->incarnation);
  }
  // The copy of the last snapshot that it asked for.
  const Weights& copy(const Caller& caller, size_t s) const {
    return copies_.at({s, caller.incarnation});
  }
  // Its process dies, and another one takes its place. False if it is dead already.
  bool strike(size_t s) {
    if (!servers_[s].up) return false;
    servers_[s].up = false;
    agenda_.after(agenda_.uniform(0.3, 10), [=, this] { start(s); });
    return true;
  }
  // The host of the ledger.
  LedgerHost& ledger() { return *servers_[0].host; }

 private:
  struct Waiting {
    int64_t ticket = 0;
    std::pair<int, int64_t> example;
  };
  struct Server {
    int life = 0;  // another process each time
    bool up = false;
    std::unique_ptr<LedgerHost> host{};
    int64_t generation = 0;
    Weights weights{};
    int64_t applied = 0;
    std::map<int, Waiting> waiting{};
  };

  void start(size_t s) {
    const int life = servers_[s].life + 1;
    servers_[s] = {.life = life, .up = true};
    if (s > 0) return;
    LedgerHost::Options options{.ledger = {.workers = setting_.workers,
                                           .max_staleness = setting_.max_staleness,
                                           .aggregate = setting_.aggregate,
                                           .rejoin_timeout = 20},
                                .clock = &clock_};
    for (int w = 0; w < setting_.workers; ++w)
      options.tasks.push_back(w == 0 ? "chief" : fmt::format("worker {}", w - 1));
    servers_[0].host = std::make_unique<LedgerHost>(std::move(options));
  }

  void look() {
    if (servers_[0].up) {
      servers_[0].host->look();
      apply_last_round();
    }
    agenda_.after(0.25, [this] { look(); });
  }

  static bool waits(const ledger::Joined& told) {
    return told.state == ledger::Joined::State::kWaiting;
  }
  static bool waits(const ledger::Claimed& told) {
    return told.state == StepLedger::Claim::State::kWait;
  }
  static bool waits(const ledger::Committed& told) {
    return told.state == StepLedger::Commit::State::kWait;
  }
  static bool waits(const ledger::Standing& told) { return !told.settled; }
  static bool waits(const auto&) { return false; }

  template <typename Operation>
  void handle(const CallerPtr& caller, int64_t generation, const Operation& asked, double until,
              const Next<Operation>& answer) {
    const int life = servers_[0].life;
    const auto told = of_ledger(caller, generation, asked);
    if (!told || !waits(*told) || agenda_.now() >= until) return answer(told);
    agenda_.after(0.3, [=, this] {
      if (servers_[0].up && servers_[0].life == life)
        handle<Operation>(caller, generation, asked, until, answer);
    });
  }

  template <typename Operation>
  std::optional<net::AnswerTo<Operation>> of_ledger(const CallerPtr& caller, int64_t generation,
                                                    const Operation& asked) {
    try {
      const auto told = ledger().answer({caller->rank, caller->incarnation, generation}, asked);
      if (setting_.aggregate > 0) {
        apply_last_round();
      } else if constexpr (std::same_as<Operation, ledger::Commit>) {
        if (told.state == StepLedger::Commit::State::kAccepted)
          apply(servers_[0], caller->rank, asked.ticket);
      }
      return told;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost && !caller->over) throw Broken{error.what()};
      return std::nullopt;
    }
  }

  // The server's own answers, as ShardServer gives them.
  void respond(size_t s, const CallerPtr&, int64_t, const shards::State&,
               const Next<shards::State>& answer) {
    answer(shards::Held{servers_[s].generation});
  }
  void respond(size_t s, const CallerPtr&, int64_t generation, const shards::Define&,
               const Next<shards::Define>& answer) {
    Server& server = servers_[s];
    if (server.generation >= generation) return answer({});
    server.generation = generation;
    server.weights.clear();
    server.waiting.clear();
    server.applied = 0;
    answer(Done());
  }
  void respond(size_t s, const CallerPtr&, int64_t generation, const shards::Pull& pull,
               const Next<shards::Pull>& answer) {
    Server& server = servers_[s];
    if (server.generation != generation) return answer({});
    if (pull.round) apply_round(server, *pull.round);
    answer(shards::Looked{server.applied});
  }
  void respond(size_t s, const CallerPtr&, int64_t generation, const shards::Write&,
               const Next<shards::Write>& answer) {
    if (servers_[s].generation != generation) return answer({});
    servers_[s].weights = saved_.weights;
    answer(Done());
  }
  void respond(size_t s, const CallerPtr& caller, int64_t generation, const shards::Push& push,
               const Next<shards::Push>& answer) {
    if (servers_[s].generation != generation) return answer({});
    const int life = servers_[s].life;
    settle(s, caller->rank, false, [=, this] {
      if (servers_[s].life != life || !servers_[s].up) return;
      if (newest_[{s, caller->rank}] != caller->incarnation) return answer({});
      if (servers_[s].generation == generation)
        servers_[s].waiting[caller->rank] = {push.ticket, {caller->rank, example_of(push)}};
      answer(shards::Pushed());
    });
  }
  void respond(size_t s, const CallerPtr& caller, int64_t generation, const shards::Apply& asked,
               const Next<shards::Apply>& answer) {
    if (servers_[s].generation != generation) return answer({});
    apply(servers_[s], caller->rank, asked.ticket);
    answer(Done());
  }
  void respond(size_t s, const CallerPtr& caller, int64_t generation, const shards::Snapshot& asked,
               const Next<shards::Snapshot>& answer) {
    if (servers_[s].generation != generation) return answer({});
    if (asked.round) apply_round(servers_[s], *asked.round);
    snapshot(s, servers_[s].life, caller, generation, asked, agenda_.now() + 30, answer);
  }

  void snapshot(size_t s, int life, const CallerPtr& caller, int64_t generation,
                const shards::Snapshot& asked, double until, const Next<shards::Snapshot>& answer) {
    Server& server = servers_[s];
    if (!server.up || server.life != life) return;
    if (server.generation != generation || server.applied > asked.commits) return answer({});
    if (server.applied == asked.commits) {
      copies_[{s, caller->incarnation}] = server.weights;
      return answer(Done());
    }
    if (agenda_.now() > until) return answer({});
    std::vector<int> ranks;
    for (const auto& [rank, waiting] : server.waiting) {
      if (waiting.ticket != 0) ranks.push_back(rank);
    }
    for (const int rank : ranks) settle(s, rank, false);
    agenda_.after(0.5, [=, this] { snapshot(s, life, caller, generation, asked, until, answer); });
  }

  void apply(Server& server, int rank, int64_t ticket) {
    const auto found = server.waiting.find(rank);
    if (found == server.waiting.end() || found->second.ticket != ticket || ticket == 0) return;
    found->second.ticket = 0;
    count(server, found->second.example);
    ++server.applied;
  }

  static void count(Server& server, const std::pair<int, int64_t>& example) {
    require(++server.weights[example] == 1, "an example is counted twice");
  }

  void apply_round(Server& server, const StepLedger::Round& round) {
    if (server.generation != round.generation || server.applied >= round.number) return;
    require(server.applied == round.number - 1, "an update is skipped");
    for (const auto& [worker, ticket] : round.parts) {
      Waiting& waiting = server.waiting[worker];
      require(waiting.ticket == ticket, "a server lacks gradients of an update");
      waiting.ticket = 0;
      count(server, waiting.example);
    }
    server.applied = round.number;
  }

  void apply_last_round() {
    if (setting_.aggregate == 0) return;
    if (const auto last = ledger().last_round()) apply_round(servers_[0], *last);
  }

  // Asks the ledger about the step of a worker that will not answer itself, and continues with
  // `then`.
  void settle(
      size_t s, int rank, bool gone, const std::function<void()>& then = [] {}) {
    const Server& server = servers_[s];
    const auto found = server.waiting.find(rank);
    if (found == server.waiting.end() || found->second.ticket == 0) return then();
    const ledger::Resolve asked{.rank = rank, .ticket = found->second.ticket, .gone = gone};
    // It tries for a while if the first server is not up.
    const double until = agenda_.now() + 5;
    resolve(s, server.life, server.generation, asked, until, then);
  }

  void resolve(size_t s, int life, int64_t generation, const ledger::Resolve& asked, double until,
               const std::function<void()>& then) {
    agenda_.after(s == 0 ? 0 : agenda_.delay(), [=, this] {
      if (servers_[s].life != life || !servers_[s].up) return;
      if (!servers_[0].up) {
        if (agenda_.now() > until) return then();
        return agenda_.after(0.2, [=, this] { resolve(s, life, generation, asked, until, then); });
      }
      const bool counts = ledger().answer({.generation = generation}, asked).committed;
      agenda_.after(s == 0 ? 0 : agenda_.delay(), [=, this] {
        if (servers_[s].life != life || !servers_[s].up) return;
        Server& server = servers_[s];
        Waiting& waiting = server.waiting[asked.rank];
        if (server.generation == generation && waiting.ticket == asked.ticket) {
          if (counts && setting_.aggregate == 0) apply(server, asked.rank, waiting.ticket);
          if (!counts && asked.gone) waiting.ticket = 0;
        }
        then();
      });
    });
  }

  const Setting& setting_;
  Agenda& agenda_;
  ManualClock& clock_;
  const SimulatedCheckpoint& saved_;
  std::vector<Server> servers_;
  std::map<std::pair<size_t, int>, uint64_t> newest_;      // incarnation, by server and worker
  std::map<std::pair<size_t, uint64_t>, Weights> copies_;  // by server and incarnation
};

}  // namespace muster::inline v0_1::ps
