// A whole run on parameter servers in simulated time: the real ledger, with the protocol of
// workers, servers and the chief around it, as worker_run.cc, shard_server.cc and server.cc have
// it. Messages are late, overtake messages of other connections, or are lost with their connection;
// processes die, stand still and come back; checkpoints are cut all the while.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "muster/ps/internal/simulated_servers.h"

namespace muster::inline v0_1::ps {
namespace {

using ClaimState = StepLedger::Claim::State;
using CommitState = StepLedger::Commit::State;

class Simulation {
 public:
  Simulation(const Setting& setting, uint32_t seed)
      : setting_(setting), agenda_(seed), servers_(setting_, agenda_, clock_, saved_) {
    saved_.positions.resize(static_cast<size_t>(setting.workers));
    processes_.resize(static_cast<size_t>(setting.workers));
    for (int w = 0; w < setting.workers; ++w) start_process(w);
    for (int i = 0; i < setting.faults; ++i)
      agenda_.after(agenda_.uniform(0, 10), [this] { strike(); });
  }

  ~Simulation() {
    for (const Process& process : processes_)
      if (process.session) process.session->on_return = nullptr;
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  // To the end of all processes.
  void run() {
    for (int64_t events = 0; std::ssize(ended_) < setting_.workers; ++events) {
      require(events < 400'000 && agenda_.now() < 3000, "the run does not end");
      agenda_.step(clock_);
    }
  }
  const SimulatedCheckpoint& last_checkpoint() const { return saved_; }
  bool all_came_back() const { return gone_for_good_.empty(); }

 private:
  // --- connections ---

  // A worker's state until it loses a peer.
  struct Session : SimulatedServers::Caller {
    int64_t generation = 0;
    int64_t ticket = 0;
    int64_t next = 0;                          // row
    std::optional<StepLedger::Round> round{};  // the last update of several workers
    // For steps that overlap.
    int64_t looked = 0;                 // steps in the weights it has
    std::optional<int64_t> fetched{};   // and in the weights of the next step, if they are here
    bool on_its_way = false;            // the one before
    std::function<void()> on_return{};  // the function that waits for that
  };
  using SessionPtr = std::shared_ptr<Session>;
  template <typename Operation>
  using Next = std::function<void(const net::AnswerTo<Operation>&)>;
  // The answers of all servers.
  template <typename Operation>
  using All = std::function<void(const std::vector<net::AnswerTo<Operation>>&)>;

  // The worker's reaction to a message: none while it stands still, nor after its session.
  void wake(const SessionPtr& session, const std::function<void()>& act) {
    if (session->over) return;
    const double still = processes_[static_cast<size_t>(session->rank)].still_until - agenda_.now();
    if (still > 0) return agenda_.after(still, [=, this] { wake(session, act); });
    act();
  }

  // A request of the session to a server's data, or to the ledger. The server answers it when the
  // worker is gone as well, but the answer is lost.
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
    const int life = processes_[static_cast<size_t>(rank)].life;
    agenda_.after(0.5, [=, this] {
      if (processes_[static_cast<size_t>(rank)].life == life) connect(rank);
    });
  }

  // Its connections end, one after another.
  void part(const SessionPtr& session) {
    session->over = true;
    // The waiting function holds the session, which would hold itself.
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
    SessionPtr session;
  };

  void start_process(int rank) {
    ++processes_[static_cast<size_t>(rank)].life;
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

  // The chief looks at the contents of servers and ledger.
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

  // New weights are stored next to those that a step is computed with.
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
      require(servers_.copy(session, s) == saved.weights, "servers differ in a checkpoint");
    int64_t counted = 0;
    for (const auto& [example, times] : saved.weights) {
      const auto& [worker, row] = example;
      require(times == 1, "an example counts twice in a checkpoint");
      require(row < row_of(saved.positions[static_cast<size_t>(worker)]),
              "an example counts in a checkpoint that is still to come there");
      ++counted;
    }
    int64_t seen = 0;
    for (const std::string& position : saved.positions) seen += row_of(position);
    // Where gradients may come too late, examples are seen that do not count.
    if (setting_.aggregate == 0) {
      require(seen == counted, "not all examples that were seen count");
      require(saved.step == counted, "the step's number is not that of the examples");
    }
    require(!setting_.last_step || saved.step <= *setting_.last_step, "there are too many steps");
    saved_ = std::move(saved);
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
      require(staleness.max <= most, "weights were older than they may be");
  }

  // --- faults ---

  void strike() {
    if (ending_) return;
    const int kind = agenda_.draw(10);
    if (kind < 2) return strike_server();
    const int rank = agenda_.draw(setting_.workers);
    Process& process = processes_[static_cast<size_t>(rank)];
    if (ended_.contains(rank)) return;
    if (kind < 5) {  // a connection is lost, which both sides notice when they notice it
      if (const SessionPtr session = process.session; session && !session->over)
        agenda_.after(agenda_.delay(), [=, this] { wake(session, [=, this] { lose(session); }); });
    } else if (kind < 7) {
      process.still_until = agenda_.now() + agenda_.uniform(0, 20);
    } else {
      const int life = ++process.life;
      process.still_until = 0;
      if (process.session && !process.session->over) part(process.session);
      if (rank != 0 && agenda_.draw(8) == 0) {
        gone_for_good_.insert(rank);
        ended_.insert(rank);
        return;
      }
      agenda_.after(agenda_.uniform(0.3, 12), [=, this] {
        if (processes_[static_cast<size_t>(rank)].life == life) start_process(rank);
      });
    }
  }

  void strike_server() {
    if (!servers_.strike(static_cast<size_t>(agenda_.draw(setting_.servers)))) return;
    for (const Process& process : processes_) {
      if (const SessionPtr session = process.session; session && !session->over)
        agenda_.after(10 * agenda_.delay(),
                      [=, this] { wake(session, [=, this] { lose(session); }); });
    }
  }

  const Setting setting_;
  Agenda agenda_;
  ManualClock clock_;
  SimulatedCheckpoint saved_;
  SimulatedServers servers_;
  std::vector<Process> processes_;
  uint64_t incarnations_ = 0;
  std::set<int> ended_, gone_for_good_;  // ranks
  bool ending_ = false;
};

Setting drawn(uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  Setting setting{.workers = 1 + draw(4), .servers = 1 + draw(3), .faults = draw(7)};
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

TEST(LedgerSimulation, EverySeedEndsWithStepsThatCountOnce) {
  ::testing::internal::CaptureStderr();
  int with_faults = 0;
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    const Setting setting = drawn(seed);
    const auto where = [&] {
      return fmt::format(
          "seed {}: {} workers, {} servers, {} faults, staleness {}, aggregate {}, "
          "overlap {}: ",
          seed, setting.workers, setting.servers, setting.faults,
          setting.max_staleness.value_or(-1), setting.aggregate, setting.overlap);
    };
    try {
      Simulation simulation(setting, seed);
      simulation.run();
      const SimulatedCheckpoint& last = simulation.last_checkpoint();
      if (setting.last_step) {
        EXPECT_EQ(last.step, *setting.last_step) << where();
      } else if (simulation.all_came_back()) {
        for (const std::string& position : last.positions)
          EXPECT_EQ(row_of(position), setting.rows) << where();
      }
      if (setting.faults > 0) ++with_faults;
    } catch (const Broken& broken) {
      ADD_FAILURE() << where() << broken.what;
    }
  }
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_GT(with_faults, 500);
}

}  // namespace
}  // namespace muster::inline v0_1::ps
