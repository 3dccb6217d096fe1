// Parameter servers in simulated time: the ledger as it is, and what shard_server.cc and server.cc
// do around it. Processes and their words are the caller's, who says when they come and go. Thread
// safety: one thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/ps/internal/ledger_host.h"

namespace muster::inline v0_1::ps {

using nlohmann::json;

// How often each example of a worker is in the weights.
using Weights = std::map<std::pair<int, int64_t>, int>;

// What is wrong with the protocol: thrown.
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
  // How long words are on their way; now and then they are late.
  double delay() { return draw(20) == 0 ? uniform(0, 2) : uniform(0, 0.02); }

 private:
  std::mt19937 random_;
  double now_ = 0;
  uint64_t next_ = 0;
  std::map<std::pair<double, uint64_t>, std::function<void()>> events_;
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
  int faults = 0;
};

struct SimulatedCheckpoint {
  int64_t step = 0;
  std::vector<std::string> positions{};
  Weights weights{};
};

// Where a worker is in its data.
inline int64_t row_of(const std::string& position) {
  return position.empty() ? 0 : std::stoll(position);
}

class SimulatedServers {
 public:
  // The servers are up from the beginning. `saved` is what the chief writes to them.
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
    bool over = false;            // the process has let them go, or is dead
    std::vector<int> life{};      // of the servers it has met
    std::vector<bool> at_work{};  // [server]: a request of its is being answered
  };
  using CallerPtr = std::shared_ptr<Caller>;
  using Next = std::function<void(const json&)>;

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
  void ask(size_t s, const CallerPtr& caller, const json& request, const Next& answer) {
    handle(s, caller, request, agenda_.now() + 1, answer);
  }
  // The end of a connection is seen.
  void left(const CallerPtr& caller, size_t s) {
    if (!reaches(*caller, s)) return;
    if (newest_[{s, caller->rank}] == caller->incarnation) settle(s, caller->rank, true);
    if (s == 0) servers_[0].host->leave(caller->rank, caller->incarnation);
  }
  // What a snapshot has copied.
  const Weights& copy(const json& answer) const { return copies_[answer.at("copy").get<size_t>()]; }
  // Its process dies, and another one takes its place. False where it is dead already.
  bool strike(size_t s) {
    if (!servers_[s].up) return false;
    servers_[s].up = false;
    agenda_.after(agenda_.uniform(0.3, 10), [=, this] { start(s); });
    return true;
  }
  // Of the ledger's host.
  json ask_ledger(const json& request) { return servers_[0].host->answer(request); }

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
                                           .rejoin_seconds = 20},
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

  void handle(size_t s, const CallerPtr& caller, const json& request, double until,
              const Next& answer) {
    const int life = servers_[s].life;
    const json told = respond(s, caller, request, answer);
    if (told.is_null()) return;  // it answers later
    const bool waits = told.value("state", "") == "waiting" || told.value("settled", true) == false;
    if (!waits || agenda_.now() >= until) return answer(told);
    agenda_.after(0.3, [=, this] {
      if (servers_[s].up && servers_[s].life == life) handle(s, caller, request, until, answer);
    });
  }

  json respond(size_t s, const CallerPtr& caller, const json& request, const Next& answer) {
    const std::string op = request.at("op").get<std::string>();
    static const std::set<std::string> kOfLedger = {
        "join",    "claim", "commit",    "settled", "begin", "finish", "status",
        "abandon", "pause", "end_input", "resume",  "bye",   "beat"};
    try {
      if (!kOfLedger.contains(op)) return respond_as_server(s, caller, request, answer);
      json told = servers_[0].host->answer(request);
      if (setting_.aggregate > 0) {
        apply_last_round();
      } else if (op == "commit" && told.at("state") == "accepted") {
        apply(servers_[0], caller->rank, request.at("ticket").get<int64_t>());
      }
      return told;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kPeerLost && !caller->over) throw Broken{error.what()};
      return {{"lost", error.message()}};
    }
  }

  json respond_as_server(size_t s, const CallerPtr& caller, const json& request,
                         const Next& answer) {
    Server& server = servers_[s];
    const std::string op = request.at("op").get<std::string>();
    if (op == "state") return {{"generation", server.generation}};
    if (op == "define") {
      if (server.generation >= request.at("generation")) return {{"lost", "defined already"}};
      server.generation = request.at("generation").get<int64_t>();
      server.weights.clear();
      server.waiting.clear();
      server.applied = 0;
      return json::object();
    }
    if (server.generation != request.at("generation")) return {{"lost", "another generation"}};
    if (request.contains("round")) apply_round(server, request.at("round"));
    const int rank = caller->rank;
    if (op == "pull") return {{"applied", server.applied}};
    if (op == "write") {
      server.weights = saved_.weights;
    } else if (op == "push") {
      const int life = server.life;
      settle(s, rank, false, [=, this] {
        if (servers_[s].life != life || !servers_[s].up) return;
        if (newest_[{s, rank}] != caller->incarnation)
          return answer({{"lost", "another process has come"}});
        if (servers_[s].generation == request.at("generation")) {
          servers_[s].waiting[rank] = {request.at("ticket").get<int64_t>(),
                                       {rank, request.at("row").get<int64_t>()}};
        }
        answer(json::object());
      });
      return {};
    } else if (op == "apply") {
      apply(server, rank, request.at("ticket").get<int64_t>());
    } else if (op == "snapshot") {
      snapshot(s, server.life, request, agenda_.now() + 30, answer);
      return {};
    }
    return json::object();
  }

  void snapshot(size_t s, int life, const json& request, double until, const Next& answer) {
    Server& server = servers_[s];
    if (!server.up || server.life != life) return;
    if (server.generation != request.at("generation")) return answer({{"lost", "it began again"}});
    const auto commits = request.at("commits").get<int64_t>();
    if (server.applied > commits) return answer({{"lost", "the others have gone on"}});
    if (server.applied == commits) {
      copies_.push_back(server.weights);
      return answer({{"copy", copies_.size() - 1}});
    }
    if (agenda_.now() > until) return answer({{"lost", "it lacks steps"}});
    std::vector<int> ranks;
    for (const auto& [rank, waiting] : server.waiting) {
      if (waiting.ticket != 0) ranks.push_back(rank);
    }
    for (const int rank : ranks) settle(s, rank, false);
    agenda_.after(0.5, [=, this] { snapshot(s, life, request, until, answer); });
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

  void apply_round(Server& server, const json& round) {
    const auto number = round.at("number").get<int64_t>();
    if (server.generation != round.at("generation") || server.applied >= number) return;
    require(server.applied == number - 1, "an update is skipped");
    for (const json& part : round.at("parts")) {
      Waiting& waiting = server.waiting[part.at(0).get<int>()];
      require(waiting.ticket == part.at(1), "a server lacks gradients of an update");
      waiting.ticket = 0;
      count(server, waiting.example);
    }
    server.applied = number;
  }

  void apply_last_round() {
    if (setting_.aggregate == 0) return;
    const json last = servers_[0].host->last_round();
    if (last.contains("round")) apply_round(servers_[0], last.at("round"));
  }

  // Asks the ledger about the step of a worker that will not say itself, and goes on with `then`.
  void settle(
      size_t s, int rank, bool gone, const std::function<void()>& then = [] {}) {
    const Server& server = servers_[s];
    const auto found = server.waiting.find(rank);
    if (found == server.waiting.end() || found->second.ticket == 0) return then();
    const json request{{"op", "resolve"},
                       {"rank", rank},
                       {"generation", server.generation},
                       {"ticket", found->second.ticket},
                       {"gone", gone}};
    // It tries for a while where the first server is not there.
    const double until = agenda_.now() + 5;
    ask_ledger_of(s, server.life, request, until, then);
  }

  void ask_ledger_of(size_t s, int life, const json& request, double until,
                     const std::function<void()>& then) {
    agenda_.after(s == 0 ? 0 : agenda_.delay(), [this, s, life, request, until, then] {
      if (servers_[s].life != life || !servers_[s].up) return;
      if (!servers_[0].up) {
        if (agenda_.now() > until) return then();
        return agenda_.after(0.2, [=, this] { ask_ledger_of(s, life, request, until, then); });
      }
      const bool counts = servers_[0].host->answer(request).at("committed").get<bool>();
      agenda_.after(s == 0 ? 0 : agenda_.delay(), [this, s, life, request, counts, then] {
        if (servers_[s].life != life || !servers_[s].up) return;
        Server& server = servers_[s];
        const int rank = request.at("rank").get<int>();
        Waiting& waiting = server.waiting[rank];
        if (server.generation == request.at("generation") &&
            waiting.ticket == request.at("ticket")) {
          if (counts && setting_.aggregate == 0) apply(server, rank, waiting.ticket);
          if (!counts && request.at("gone").get<bool>()) waiting.ticket = 0;
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
  std::map<std::pair<size_t, int>, uint64_t> newest_;  // incarnation, by server and worker
  std::vector<Weights> copies_;
};

}  // namespace muster::inline v0_1::ps
