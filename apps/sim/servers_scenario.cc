// A whole run on parameter servers in simulated time: the ledger as it is, with the protocol of
// workers, servers and the chief around it, as worker_run.cc, shard_server.cc and server.cc have
// it. Messages are late, overtake those of other connections, or are lost with their connection;
// processes die, stand still and come back; checkpoints are cut meanwhile.
#include "apps/sim/servers_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "apps/sim/simulated_servers.h"
#include "muster/base/random.h"

namespace muster::sim::servers {
namespace {

using ClaimState = StepLedger::Claim::State;
using CommitState = StepLedger::Commit::State;

enum ServersFault {
  kServerDies,
  kWorkerDisconnects,
  kWorkerStands,
  kWorkerDies,
  kWorkerIsGone,
  kMessagesAreLate,
  kServersFaults
};

class ServersWorld {
 public:
  ServersWorld(uint64_t seed, const Setting& setting, const std::vector<Fault>& faults,
               const ServersScenario::Planted& planted, Trace& trace)
      : setting_(setting),
        trace_(trace),
        agenda_(derive_key(seed, {id_of("servers")}), &clock_),
        servers_(setting_, planted, agenda_, clock_, saved_) {
    saved_.positions.resize(static_cast<size_t>(setting.workers));
    processes_.resize(static_cast<size_t>(setting.workers));
    for (int w = 0; w < setting.workers; ++w) start_process(w);
    for (const Fault& fault : faults) {
      agenda_.at(fault.at, [this, &fault] {
        if (ending_) return;
        note(fault.text);
        strike(fault);
      });
    }
  }

  ~ServersWorld() {
    for (const Process& process : processes_)
      if (process.session) process.session->on_return = nullptr;
  }
  ServersWorld(const ServersWorld&) = delete;
  ServersWorld& operator=(const ServersWorld&) = delete;

  std::string run() {
    try {
      // To the end of all processes.
      for (int64_t events = 0; std::ssize(ended_) < setting_.workers; ++events) {
        require(events < 400'000 && agenda_.now() < 3000, "the run ends");
        agenda_.step();
      }
      check_end();
    } catch (const Broken& broken) {
      note("broken law: " + broken.law);
      return broken.law;
    }
    return "";
  }

 private:
  void note(const std::string& line) { trace_.add(agenda_.now(), line); }

  void check_end() const {
    if (setting_.last_step)
      return require(saved_.step == *setting_.last_step, "all steps are made");
    if (is_without_some_) return;
    for (const std::string& position : saved_.positions)
      require(row_of(position) == setting_.rows, "all examples are used");
  }

  // --- connections ---

  // What a worker knows until it loses somebody.
  struct Session : SimulatedServers::Caller {
    int64_t generation = 0;
    int64_t ticket = 0;
    int64_t next = 0;                          // row
    std::optional<StepLedger::Round> round{};  // the last update of several workers
    // Of steps that overlap.
    int64_t looked = 0;                 // steps in the weights it has
    std::optional<int64_t> fetched{};   // and in those of the next step, where they are here
    bool on_its_way = false;            // the one before
    std::function<void()> on_return{};  // what waits for that
  };
  using SessionPtr = std::shared_ptr<Session>;
  template <typename Operation>
  using Next = std::function<void(const net::AnswerTo<Operation>&)>;
  // The answers of all servers.
  template <typename Operation>
  using All = std::function<void(const std::vector<net::AnswerTo<Operation>>&)>;

  // What the worker does when words come: not while it stands still, nor after its session.
  void wake(const SessionPtr& session, const std::function<void()>& act) {
    if (session->over) return;
    const double still = processes_[static_cast<size_t>(session->rank)].still_until - agenda_.now();
    if (still > 0) return agenda_.after(still, [=, this] { wake(session, act); });
    act();
  }

  // A request of the session to a server's data, or to the ledger. The server answers it when the
  // worker is gone as well, but nobody hears it.
  template <typename Operation>
  void ask(const SessionPtr& session, size_t s, const Operation& asked,
           const Next<Operation>& next) {
    const int64_t generation = session->generation;
    agenda_.after(agenda_.delay(), [=, this] {
      if (!servers_.reaches(*session, s)) return wake(session, [=, this] { lose(session); });
      session->at_work[s] = true;
      servers_.ask<Operation>(s, session, generation, asked, [=, this](const auto& answer) {
        session->at_work[s] = false;
        if (session->over) return servers_.left(session, s);
        agenda_.after(agenda_.delay(), [=, this] {
          wake(session, [=, this] {
            if (!answer) return lose(session);
            next(*answer);
          });
        });
      });
    });
  }

  template <typename Operation>
  void ask_all(const SessionPtr& session, const Operation& asked, const All<Operation>& next) {
    const size_t count = servers_.size();
    const auto answers = std::make_shared<std::vector<net::AnswerTo<Operation>>>(count);
    const auto left = std::make_shared<size_t>(count);
    for (size_t s = 0; s < count; ++s) {
      ask(session, s, asked, [=](const net::AnswerTo<Operation>& answer) {
        (*answers)[s] = answer;
        if (--*left == 0) next(*answers);
      });
    }
  }

  // The worker has noticed that something is lost: it joins again, in the same process.
  void lose(const SessionPtr& session) {
    if (session->over) return;
    part(session);
    const int rank = session->rank;
    leave(rank);
    if (trace_.kept()) note(fmt::format("worker {} has lost a server, and joins again", rank));
    const int life = processes_[static_cast<size_t>(rank)].life;
    agenda_.after(0.5, [=, this] {
      if (processes_[static_cast<size_t>(rank)].life == life) connect(rank);
    });
  }

  // Its connections end, one after another.
  void part(const SessionPtr& session) {
    session->over = true;
    // What waits holds the session, which would hold itself.
    session->on_return = nullptr;
    for (size_t s = 0; s < servers_.size(); ++s) {
      agenda_.after(agenda_.delay(), [=, this] {
        if (!session->at_work[s]) servers_.left(session, s);
      });
    }
  }

  // --- workers ---

  struct Process {
    int life = 0;
    double still_until = 0;
    std::optional<double> away_since{};  // it may take no part
    SessionPtr session;
  };

  void leave(int rank) {
    auto& since = processes_[static_cast<size_t>(rank)].away_since;
    if (!since) since = agenda_.now();
  }
  void come_back(int rank) {
    auto& since = processes_[static_cast<size_t>(rank)].away_since;
    if (since && agenda_.now() - *since > kRejoinTimeout - 1) is_without_some_ = true;
    since.reset();
  }

  void start_process(int rank) {
    ++processes_[static_cast<size_t>(rank)].life;
    if (trace_.kept()) note(fmt::format("worker {} begins", rank));
    connect(rank);
  }

  void connect(int rank) {
    const int life = processes_[static_cast<size_t>(rank)].life;
    if (!servers_.all_up()) {
      return agenda_.after(0.3, [=, this] {
        if (processes_[static_cast<size_t>(rank)].life == life) connect(rank);
      });
    }
    auto session = std::make_shared<Session>();
    session->rank = rank;
    session->incarnation = ++incarnations_;
    servers_.connect(*session);
    processes_[static_cast<size_t>(rank)].session = session;
    beat(session);
    rank == 0 ? find_state(session) : join(session);
  }

  void beat(const SessionPtr& session) {
    agenda_.after(1 + agenda_.delay(), [=, this] {
      wake(session, [=, this] {
        if (!servers_.reaches(*session, 0)) return;
        servers_.ledger().answer({session->rank, session->incarnation}, ledger::Beat());
        beat(session);
      });
    });
  }

  // The chief looks what servers and ledger hold.
  void find_state(const SessionPtr& session) {
    ask(session, 0, ledger::Status(), [=, this](const ledger::Place& place) {
      if (place.finished) return end(session);
      const int64_t ledgers = place.generation;
      ask_all(session, shards::State(), [=, this](const std::vector<shards::Held>& states) {
        int64_t most = ledgers;
        bool alike = ledgers > 0;
        for (const shards::Held& state : states) {
          most = std::max(most, state.generation);
          alike = alike && state.generation == ledgers;
        }
        session->generation = alike ? ledgers : most + 1;
        alike ? join(session) : define(session);
      });
    });
  }

  void define(const SessionPtr& session) {
    ask_all(session, shards::Define(), [=, this](const auto&) {
      ask_all(session, shards::Write(), [=, this](const auto&) {
        const ledger::Begin begin{
            .step = saved_.step, .last_step = setting_.last_step, .positions = saved_.positions};
        ask(session, 0, begin, [=, this](const Done&) { join(session); });
      });
    });
  }

  void join(const SessionPtr& session) {
    ask(session, 0, ledger::Join(), [=, this](const ledger::Joined& joined) {
      if (joined.state != ledger::Joined::State::kWaiting) come_back(session->rank);
      if (joined.state == ledger::Joined::State::kFinished) return end(session);
      if (joined.state == ledger::Joined::State::kWaiting) return join(session);
      session->generation = joined.generation;
      session->next = row_of(joined.position);
      ask_all(session, shards::State(), [=, this](const std::vector<shards::Held>& states) {
        const bool alike = std::ranges::all_of(states, [&](const shards::Held& state) {
          return state.generation == session->generation;
        });
        if (alike) return step(session);
        agenda_.after(0.2, [=, this] { wake(session, [=, this] { join(session); }); });
      });
    });
  }

  void step(const SessionPtr& session) {
    if (session->rank == 0 && agenda_.draw(8) == 0) {
      return save(session, [=, this] { claim(session); });
    }
    claim(session);
  }

  void claim(const SessionPtr& session) {
    if (!setting_.last_step && session->next == setting_.rows) {
      return ask(session, 0, ledger::EndInput(), [=, this](const Done&) { wait_for_end(session); });
    }
    ask(session, 0, ledger::Claim(), [=, this](const ledger::Claimed& claim) {
      if (claim.state == ClaimState::kOver) return wait_for_end(session);
      if (claim.state == ClaimState::kWait)
        return look_at_servers(session, [=, this] { step(session); });
      session->ticket = claim.ticket;
      session->round = claim.round;
      ask_all(
          session, shards::Pull{claim.round}, [=, this](const std::vector<shards::Looked>& pulled) {
            session->looked = pulled.front().applied;
            compute(session, [=, this] { setting_.overlap ? send_off(session) : push(session); });
          });
    });
  }

  void compute(const SessionPtr& session, const std::function<void()>& next) {
    agenda_.after(agenda_.uniform(0.01, 0.3), [=, this] { wake(session, next); });
  }

  // --- steps that overlap, as WorkerRun::send_off() has them ---

  // `next` comes when no step is on its way.
  static void after_push(const SessionPtr& session, const std::function<void()>& next) {
    if (!session->on_its_way) return next();
    session->on_return = next;
  }

  // A step was computed.
  void send_off(const SessionPtr& session) {
    after_push(session, [=, this] {
      if (session->ticket != 0) return send_claimed(session);
      // It could not be claimed with the commit before it.
      ask(session, 0, ledger::Claim(), [=, this](const ledger::Claimed& claim) {
        if (claim.state == ClaimState::kOver) return wait_for_end(session);
        if (claim.state == ClaimState::kWait)
          return look_at_servers(session, [=, this] { send_off(session); });
        session->ticket = claim.ticket;
        fetch(session, [=, this] { send_claimed(session); });
      });
    });
  }

  // Weights come next to those that a step is computed with.
  void fetch(const SessionPtr& session, const std::function<void()>& next) {
    ask_all(session, shards::Pull(), [=](const std::vector<shards::Looked>& pulled) {
      session->fetched = pulled.front().applied;
      next();
    });
  }

  void send_claimed(const SessionPtr& session) {
    const int64_t ticket = std::exchange(session->ticket, 0);
    const int64_t row = session->next++;
    const int64_t looked = session->looked;
    session->looked = std::exchange(session->fetched, std::nullopt).value_or(looked);
    session->on_its_way = true;
    ask_all(session, push_of(ticket, row),
            [=, this](const auto&) { commit_behind(session, ticket, row, looked); });
    // Meanwhile the chief may want to save, and the data may be used up.
    const bool saves = session->rank == 0 && agenda_.draw(8) == 0;
    if (!saves) return compute_next(session);
    after_push(session, [=, this] { save(session, [=, this] { compute_next(session); }); });
  }

  void compute_next(const SessionPtr& session) {
    if (!setting_.last_step && session->next == setting_.rows)
      return after_push(session, [=, this] { claim(session); });
    compute(session, [=, this] { send_off(session); });
  }

  void commit_behind(const SessionPtr& session, int64_t ticket, int64_t row, int64_t looked) {
    const ledger::Commit commit{
        .ticket = ticket, .position = std::to_string(row + 1), .looked = looked, .next = true};
    ask(session, 0, commit, [=, this](const ledger::Committed& told) {
      if (told.state == CommitState::kWait)
        return look_at_servers(session, [=, this] { commit_behind(session, ticket, row, looked); });
      const auto left = std::make_shared<size_t>(servers_.size());
      const auto applied = [=, this] {
        if (--*left > 0) return;
        session->ticket = told.next;
        // The weights of the step after the next one.
        session->ticket != 0 ? fetch(session, [=, this] { come_back(session); })
                             : come_back(session);
      };
      for (size_t s = 1; s < servers_.size(); ++s) {
        ask(session, s, shards::Apply{ticket}, [=](const Done&) { applied(); });
      }
      applied();  // by the first one, with the commit
    });
  }

  static void come_back(const SessionPtr& session) {
    session->on_its_way = false;
    if (const auto next = std::exchange(session->on_return, nullptr)) next();
  }

  // --- steps one after another ---

  void look_at_servers(const SessionPtr& session, const std::function<void()>& next) {
    ask_all(session, shards::State(), [=, this](const std::vector<shards::Held>& states) {
      for (const shards::Held& state : states) {
        if (state.generation != session->generation) return lose(session);
      }
      next();
    });
  }

  void push(const SessionPtr& session) {
    ask_all(session, push_of(session->ticket, session->next),
            [=, this](const auto&) { commit(session); });
  }

  void commit(const SessionPtr& session) {
    const ledger::Commit commits{.ticket = session->ticket,
                                 .position = std::to_string(session->next + 1)};
    ask(session, 0, commits, [=, this](const ledger::Committed& told) {
      if (told.state == CommitState::kWait)
        return look_at_servers(session, [=, this] { commit(session); });
      ++session->next;
      if (setting_.aggregate > 0 || servers_.size() == 1) return step(session);
      const auto left = std::make_shared<size_t>(servers_.size() - 1);
      for (size_t s = 1; s < servers_.size(); ++s) {
        ask(session, s, shards::Apply{session->ticket}, [=, this](const Done&) {
          if (--*left == 0) step(session);
        });
      }
    });
  }

  void wait_for_end(const SessionPtr& session) {
    ask(session, 0, ledger::Settled(), [=, this](const ledger::Standing& told) {
      if (!told.settled) {
        return look_at_servers(session, [=, this] {
          if (session->rank == 0 && agenda_.draw(3) == 0)
            return save(session, [=, this] { wait_for_end(session); });
          wait_for_end(session);
        });
      }
      if (session->rank != 0) return end(session);
      save(session, [=, this] {
        ending_ = true;
        measure();
        ask(session, 0, ledger::Finish(), [=, this](const Done&) { end(session); });
      });
    });
  }

  void end(const SessionPtr& session) {
    ask(session, 0, ledger::Bye(), [=, this](const Done&) {
      session->over = true;
      ended_.insert(session->rank);
    });
  }

  // --- checkpoints ---

  void save(const SessionPtr& session, const std::function<void()>& next) {
    ask(session, 0, ledger::Pause(), [=, this](const ledger::Cut& paused) {
      const shards::Snapshot snapshot{.commits = paused.commits, .round = paused.round};
      ask_all(session, snapshot, [=, this](const auto&) {
        ask(session, 0, ledger::Resume(), [=, this](const net::Truth& resumed) {
          if (!resumed.holds) return lose(session);
          note_checkpoint(*session, paused);
          next();
        });
      });
    });
  }

  void note_checkpoint(const Session& session, const ledger::Cut& paused) {
    SimulatedCheckpoint saved{.step = paused.step, .positions = paused.positions};
    saved.weights = servers_.copy(session, 0);
    for (size_t s = 1; s < servers_.size(); ++s)
      require(servers_.copy(session, s) == saved.weights, "all servers of a checkpoint are alike");
    int64_t counted = 0;
    for (const auto& [example, times] : saved.weights) {
      const auto& [worker, row] = example;
      require(times == 1, "an example counts once in a checkpoint");
      require(row < row_of(saved.positions[static_cast<size_t>(worker)]),
              "no example counts in a checkpoint that is still to come there");
      ++counted;
    }
    int64_t seen = 0;
    for (const std::string& position : saved.positions) seen += row_of(position);
    // Where gradients may come too late, examples are seen that do not count.
    if (setting_.aggregate == 0) {
      require(seen == counted, "all examples that were seen count");
      require(saved.step == counted, "the step's number is not that of the examples");
    }
    require(!setting_.last_step || saved.step <= *setting_.last_step,
            "there are no more steps than asked for");
    saved_ = std::move(saved);
    if (trace_.kept()) note(fmt::format("a checkpoint of step {}", saved_.step));
  }

  // How old weights were, while the ledger lived.
  void measure() {
    if (!setting_.max_staleness) return;
    const ledger::Measured told = servers_.ledger().answer({}, ledger::Measures());
    // Another worker is at most s behind when a step is claimed, and at most s + 1 ahead when it is
    // committed.
    // Where steps overlap it has looked a step earlier, and its own update is among what it lacks.
    const int64_t more = setting_.overlap ? 1 : 0;
    const int64_t most = (setting_.workers - 1) * (2 * *setting_.max_staleness + 1 + more) + more;
    for (const auto& [task, staleness] : told.tasks)
      require(staleness.max <= most, "weights are as old as max_staleness allows");
  }

  // --- faults ---

  void strike(const Fault& fault) {
    if (fault.kind == kServerDies)
      return strike_server(fault.task % setting_.servers, fault.amount);
    if (fault.kind == kMessagesAreLate) return agenda_.slow_until(agenda_.now() + fault.amount);
    const int rank = fault.task % setting_.workers;
    Process& process = processes_[static_cast<size_t>(rank)];
    if (ended_.contains(rank)) return;
    leave(rank);
    switch (fault.kind) {
      case kWorkerDisconnects:  // both sides notice it when they notice it
        if (const SessionPtr session = process.session; session && !session->over)
          agenda_.after(agenda_.delay(),
                        [=, this] { wake(session, [=, this] { lose(session); }); });
        break;
      case kWorkerStands:
        process.still_until = agenda_.now() + fault.amount;
        break;
      default:
        const int life = ++process.life;
        process.still_until = 0;
        if (process.session && !process.session->over) part(process.session);
        if (rank != 0 && fault.kind == kWorkerIsGone) {
          is_without_some_ = true;
          ended_.insert(rank);
          return;
        }
        agenda_.after(fault.amount, [=, this] {
          if (processes_[static_cast<size_t>(rank)].life == life) start_process(rank);
        });
    }
  }

  void strike_server(int server, double seconds) {
    if (!servers_.strike(static_cast<size_t>(server), seconds)) return;
    for (const Process& process : processes_) {
      if (const SessionPtr session = process.session; session && !session->over) {
        leave(session->rank);
        agenda_.after(10 * agenda_.usual_delay(),
                      [=, this] { wake(session, [=, this] { lose(session); }); });
      }
    }
  }

  const Setting setting_;
  Trace& trace_;
  ManualClock clock_;
  ServersAgenda agenda_;
  SimulatedCheckpoint saved_;
  SimulatedServers servers_;
  std::vector<Process> processes_;
  uint64_t incarnations_ = 0;
  std::set<int> ended_;           // ranks
  bool is_without_some_ = false;  // a worker was away for too long, or for good
  bool ending_ = false;
};

Setting drawn(uint64_t seed) {
  Random random(derive_key(seed, {id_of("servers"), id_of("setting")}));
  const auto draw = [&](int n) {
    return static_cast<int>(random.uniform_below(static_cast<uint64_t>(n)));
  };
  Setting setting{.workers = 1 + draw(4), .servers = 1 + draw(3)};
  setting.rows = 1 + draw(12);
  if (draw(2) == 0) setting.last_step = 1 + draw(30);
  if (draw(3) == 0) {
    setting.max_staleness = draw(4);
  } else if (draw(2) == 0) {
    setting.aggregate = 1 + draw(setting.workers);
  }
  setting.overlap = setting.aggregate == 0 && draw(2) == 0;
  return setting;
}

std::string text_of(const Fault& fault) {
  const std::string worker = fmt::format("worker {} (modulo their number)", fault.task);
  switch (fault.kind) {
    case kServerDies:
      return fmt::format("server {} (modulo their number) dies, and starts after {:.1f} s",
                         fault.task, fault.amount);
    case kWorkerDisconnects:
      return "the connections close of " + worker;
    case kWorkerStands:
      return fmt::format("{} stands still for {:.1f} s", worker, fault.amount);
    case kWorkerDies:
      return fmt::format("{} dies, and starts after {:.1f} s", worker, fault.amount);
    case kWorkerIsGone:
      return worker + " is gone for good, unless it is worker 0, the chief";
    default:
      return fmt::format("messages take up to 5 s, for {:.1f} s", fault.amount);
  }
}

}  // namespace
}  // namespace muster::sim::servers

namespace muster::sim {

std::vector<Fault> ServersScenario::faults(uint64_t seed) const {
  Random random(derive_key(seed, {id_of("servers"), id_of("faults")}));
  std::vector<Fault> faults(1 + random.uniform_below(6));
  for (Fault& fault : faults) {
    fault.at = 10 * random.uniform();
    fault.kind = static_cast<int>(random.uniform_below(servers::kServersFaults));
    fault.task = static_cast<int>(random.uniform_below(12));
    fault.amount = 0.3 + (fault.kind == servers::kWorkerStands ? 20 : 12) * random.uniform();
    fault.text = servers::text_of(fault);
  }
  std::ranges::stable_sort(faults, {}, &Fault::at);
  return faults;
}

std::string ServersScenario::run(uint64_t seed, const std::vector<Fault>& faults,
                                 Trace& trace) const {
  return servers::ServersWorld(seed, servers::drawn(seed), faults, planted_, trace).run();
}

}  // namespace muster::sim
