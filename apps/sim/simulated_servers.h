// Parameter servers in simulated time: the ledger as it is, and what shard_server.cc and server.cc
// do around it. Processes and their words are the caller's, who says when they come and go. Thread
// safety: one thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/sim/agenda.h"
#include "apps/sim/servers_scenario.h"
#include "apps/sim/simulation.h"
#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/ps/testing/ledger.h"

namespace muster::sim::servers {

namespace ledger = net::ledger;
namespace shards = net::shards;
using net::Done;
using plan::StepLedger;
using ps::LedgerHost;

// A worker that is away for longer has left the run, with its examples.
inline constexpr double kRejoinTimeout = 20;

// How often each example of a worker is in the weights.
using Weights = std::map<std::pair<int, int64_t>, int>;

// Events, and the delays of a network.
class ServersAgenda : public Agenda {
 public:
  using Agenda::Agenda;
  // Messages take up to so many seconds now and then, until that time.
  void slow_until(double time) { slow_until_ = time; }
  // How long a message is on its way; now and then it is late.
  double delay() { return now() < slow_until_ && draw(3) == 0 ? uniform(0, 5) : usual_delay(); }
  double usual_delay() { return draw(20) == 0 ? uniform(0, 2) : uniform(0, 0.02); }

 private:
  double slow_until_ = 0;
};

// What a run is made of.
struct Setting {
  int workers = 1;
  int servers = 1;
  std::optional<int64_t> last_step{};  // otherwise the data ends
  int64_t rows = 0;                    // of each worker
  std::optional<int64_t> max_staleness{};
  int aggregate = 0;
  bool overlap = false;  // workers compute a step while the one before is on its way
};

struct SimulatedCheckpoint {
  int64_t step = 0;
  std::vector<std::string> positions{};
  Weights weights{};
};

// The gradients of an example; its number stands for them.
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

// What the ledger answers.
template <typename Operation>
concept OfLedger = requires(LedgerHost& host, const LedgerHost::Asker& who,
                            const Operation& asked) {
  host.answer(who, asked);
};

class SimulatedServers {
 public:
  // The servers are up from the beginning. `saved` is what the chief writes to them.
  SimulatedServers(const Setting& setting, const ServersScenario::Planted& planted,
                   ServersAgenda& agenda, ManualClock& clock, const SimulatedCheckpoint& saved)
      : setting_(setting),
        planted_(planted),
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
    bool over = false;            // the process has let them go, or is dead
    std::vector<int> life{};      // of the servers it has met
    std::vector<bool> at_work{};  // [server]: a request of its is being answered
  };
  using CallerPtr = std::shared_ptr<Caller>;
  // Takes an answer; nothing where the asker learns that something is lost.
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
    if (planted_.forgets_on_loss) {
      servers_[s].waiting.erase(caller->rank);
    } else if (newest_[{s, caller->rank}] == caller->incarnation) {
      settle(s, caller->rank, true);
    }
    if (s == 0) servers_[0].host->leave(caller->rank, caller->incarnation);
  }
  // What the last snapshot has copied that it asked for.
  const Weights& copy(const Caller& caller, size_t s) const {
    return copies_.at({s, caller.incarnation});
  }
  // Its process dies, and another one takes its place after so many seconds. False where it is dead
  // already.
  bool strike(size_t s, double seconds) {
    if (!servers_[s].up) return false;
    servers_[s].up = false;
    agenda_.after(seconds, [=, this] { start(s); });
    return true;
  }
  // The ledger of its host.
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
                                           .rejoin_timeout = kRejoinTimeout},
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
      if (error.kind() != ErrorKind::kPeerLost && !caller->over)
        throw Broken{fmt::format("the ledger refuses nothing else: {}", error.what())};
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
    const bool is_asked = found != server.waiting.end() && ticket != 0 &&
                          (found->second.ticket == ticket || planted_.applies_twice);
    if (!is_asked) return;
    found->second.ticket = 0;
    count(server, found->second.example);
    ++server.applied;
  }

  static void count(Server& server, const std::pair<int, int64_t>& example) {
    require(++server.weights[example] == 1, "an example is counted once");
  }

  void apply_round(Server& server, const StepLedger::Round& round) {
    if (server.generation != round.generation || server.applied >= round.number) return;
    require(server.applied == round.number - 1, "no update is left out");
    for (const auto& [worker, ticket] : round.parts) {
      Waiting& waiting = server.waiting[worker];
      require(waiting.ticket == ticket, "a server has all gradients of an update");
      waiting.ticket = 0;
      count(server, waiting.example);
    }
    server.applied = round.number;
  }

  void apply_last_round() {
    if (setting_.aggregate == 0) return;
    if (const auto last = ledger().last_round()) apply_round(servers_[0], *last);
  }

  // Asks the ledger about the step of a worker that will not say itself, and continues with `then`.
  void settle(
      size_t s, int rank, bool gone, const std::function<void()>& then = [] {}) {
    const Server& server = servers_[s];
    const auto found = server.waiting.find(rank);
    if (found == server.waiting.end() || found->second.ticket == 0) return then();
    const ledger::Resolve asked{.rank = rank, .ticket = found->second.ticket, .gone = gone};
    // It tries for a while where the first server is not there.
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
  const ServersScenario::Planted& planted_;
  ServersAgenda& agenda_;
  ManualClock& clock_;
  const SimulatedCheckpoint& saved_;
  std::vector<Server> servers_;
  std::map<std::pair<size_t, int>, uint64_t> newest_;      // incarnation, by server and worker
  std::map<std::pair<size_t, uint64_t>, Weights> copies_;  // by server and incarnation
};

}  // namespace muster::sim::servers
