#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/free_ports.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/strategy.h"
#include "muster/net/message_server.h"
#include "muster/ps/internal/layout.h"
#include "muster/ps/internal/ledger_host.h"
#include "muster/ps/internal/part_files.h"
#include "muster/ps/internal/server_connections.h"
#include "muster/ps/internal/server_handshake.h"
#include "muster/ps/internal/shard_store.h"
#include "muster/ps/internal/staged_gradients.h"
#include "muster/ps/internal/thread_pool.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

VariableSpec spec_of(const std::string& name, Shape shape, bool row_sparse = false) {
  return {
      .name = name,
      .shape = std::move(shape),
      .initializer =
          [](const Shape& of, DType dtype, RandomKey key) {
            int64_t elements = 1;
            for (const int64_t size : of) elements *= size;
            // Another one for each variable.
            return (torch::arange(elements, at::dtype(dtype)) + static_cast<double>(key.key % 97))
                .reshape(of);
          },
      .row_sparse = row_sparse};
}

optim::TrainOp sgd(double rate) {
  return {.entries = {{.optimizer = optim::sgd({.learning_rate = rate}), .filter = {}}}};
}

// The shards of variables that are cut into so many parts, all on one server.
std::vector<ShardOf> cut(const std::vector<VariableSpec>& variables, int64_t parts) {
  std::vector<plan::PlacedVariable> placed;
  for (const auto& variable : variables)
    placed.push_back({.name = variable.name, .shape = variable.shape, .bytes = 1});
  std::vector<ShardOf> shards;
  for (const auto& shard :
       plan::place(placed, 1, plan::Placement::kRoundRobin, plan::Partitioner::fixed(parts))) {
    shards.push_back({.variable = variables[static_cast<size_t>(shard.variable)], .shard = shard});
  }
  return shards;
}

// No function of this folder is called: that the test is linked with it is enough.
TEST(ParameterServer, IsAStrategyByName) {
  EXPECT_TRUE(distribute::strategy_by_name("parameter_server")->needs_servers());
}

TEST(ParameterServer, AStrategySaysHowItHasServers) {
  const auto served = distribute::parameter_server({.max_staleness = 3});
  EXPECT_EQ(served->servers()->max_staleness, 3);
  EXPECT_EQ(distribute::one_device()->servers(), nullptr);
  EXPECT_FALSE(distribute::one_device()->needs_servers());
}

TEST(ShardStore, ValuesDoNotDependOnHowVariablesAreCut) {
  const std::vector<VariableSpec> variables = {spec_of("a", {5, 2}), spec_of("b", {3})};
  std::vector<Tensor> memory, whole_memory;
  ShardStore whole(cut(variables, 1), sgd(1), /*seed=*/3, /*groups=*/1);
  ShardStore parts(cut(variables, 3), sgd(1), /*seed=*/3, /*groups=*/4);
  EXPECT_TRUE(
      torch::cat(whole.read_dense(&whole_memory)).equal(torch::cat(parts.read_dense(&memory))));
  EXPECT_EQ(whole.bytes(), 4 * 13);
}

TEST(ShardStore, UpdatesWhatHasAGradientAndNothingElse) {
  ShardStore store(cut({spec_of("a", {4}), spec_of("b", {2})}, 2), sgd(0.5), 0, 2);
  std::vector<Tensor> memory;
  const Tensor before = torch::cat(store.read_dense(&memory)).clone();
  const auto staged = store.stage();
  store.destination(*staged, 1).fill_(2.0);  // the second half of a
  store.apply(*staged, 1);
  const Tensor change = torch::cat(store.read_dense(&memory)) - before;
  EXPECT_TRUE(change.equal(torch::tensor({0.F, 0.F, -1.F, -1.F, 0.F, 0.F}))) << change;
  // What was staged is used up.
  store.apply(*staged, 0);
  EXPECT_TRUE((torch::cat(store.read_dense(&memory)) - before).equal(change));
  EXPECT_EQ(store.copy().at("SGD/iterations").item<int64_t>(), 2);
}

TEST(ShardStore, RowsAreReadAndUpdatedByTheirNumbers) {
  ShardStore store(cut({spec_of("table", {6, 2}, /*row_sparse=*/true)}, 1), sgd(1), 0, 1);
  const Tensor ids = torch::tensor({1, 4}, at::kLong);
  const Tensor before = store.read_rows(0, ids);
  const auto staged = store.stage();
  store.set_rows(*staged, 0, {ids, torch::ones({2, 2})});
  store.apply(*staged, 0);
  EXPECT_TRUE(store.read_rows(0, ids).equal(before - 1));
  EXPECT_THAT(message_of([&] { store.read_rows(0, torch::tensor({6}, at::kLong)); }),
              HasSubstr("row 6"));
  EXPECT_THAT(message_of([&] { store.destination(*staged, 0); }), HasSubstr("is a table"));
}

// Makes no update before two are at it at the same time.
class MeetingRule final : public optim::UpdateRule {
 public:
  std::string name() const override { return "Meeting"; }
  std::vector<optim::SlotSpec> slots() const override { return {}; }
  double learning_rate() const override { return 1; }
  void update(const optim::Segment& segment, int64_t) const override {
    std::unique_lock lock(mutex_);
    ++here_;
    changed_.notify_all();
    // Bounded, so that the test fails rather than hangs.
    met_ = met_ && changed_.wait_for(lock, std::chrono::seconds(20), [&] { return here_ >= 2; });
    Tensor(segment.weights).sub_(segment.gradient);
  }
  bool met() const { return met_; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int here_ = 0;
  mutable bool met_ = true;
};

TEST(ShardStore, UpdatesOfTwoWorkersAreMadeAtTheSameTimeOnDifferentShards) {
  const auto rule = std::make_shared<MeetingRule>();
  ShardStore store(cut({spec_of("a", {4}), spec_of("b", {4})}, 1),
                   {.entries = {{.optimizer = optim::Optimizer(rule), .filter = {}}}}, 0, 2);
  std::vector<Tensor> memory;
  const Tensor before = torch::cat(store.read_dense(&memory)).clone();
  std::vector<std::thread> workers;
  for (size_t rank = 0; rank < 2; ++rank) {
    workers.emplace_back([&, rank] {
      const auto staged = store.stage();
      for (size_t shard = 0; shard < 2; ++shard) store.destination(*staged, shard).fill_(1.0);
      store.apply(*staged, rank);
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE(rule->met());
  EXPECT_TRUE(torch::cat(store.read_dense(&memory)).equal(before - 2));
}

TEST(ShardStore, IsWrittenByName) {
  ShardStore store(cut({spec_of("a", {4})}, 2), sgd(1), 0, 1);
  store.write({{"a/part_1", torch::tensor({7.F, 8.F})}});
  EXPECT_TRUE(store.copy().at("a/part_1").equal(torch::tensor({7.F, 8.F})));
  EXPECT_THAT(message_of([&] {
                store.write({{"a", torch::zeros({4})}});
              }),
              HasSubstr("a float32[4]"));
}

TEST(ShardStore, RowsAreWrittenByName) {
  ShardStore store(cut({spec_of("a", {4, 2})}, 1), sgd(1), 0, 1);
  store.write({{"a", torch::zeros({4, 2})}});
  store.write_rows("a", 1, torch::ones({2, 2}));
  EXPECT_TRUE(store.copy().at("a").sum(1).equal(torch::tensor({0.F, 2.F, 2.F, 0.F})));
  for (const auto& [begin, rows] : {std::pair{3, torch::ones({2, 2})},
                                    {-1, torch::ones({1, 2})},
                                    {0, torch::ones({2, 3})},
                                    {0, torch::ones({2})},
                                    {0, torch::ones({1, 2}, at::kLong)}}) {
    EXPECT_EQ(error_of([&] { store.write_rows("a", begin, rows); }).kind(),
              ErrorKind::kInvalidArgument);
  }
  EXPECT_THAT(message_of([&] { store.write_rows("b", 0, torch::ones({1})); }),
              HasSubstr("b is not on this server"));
}

// What one server wrote, two others read, of tables that are longer than what is read at a time.
TEST(PartFiles, AreReadByOtherServersInPieces) {
  TempDirectory directory;
  const std::vector<VariableSpec> variables = {spec_of("a", {5, 3 << 20}), spec_of("b", {3})};
  const PartFiles files(directory.path(), nullptr);
  ShardStore before(cut(variables, 1), sgd(1), /*seed=*/3, /*groups=*/2);
  const std::map<std::string, Tensor> copy = before.copy();
  const std::string name = checkpoint_part_name(9, 0, 1, 5);
  Checkpoint index{.global_step = 9};
  index.parts =
      formats::SafetensorsParts::parse(files.write(name, before, copy).table, "the table").value();
  write_checkpoint(local_file_system(), directory / "model.ckpt-9.safetensors", index);
  ShardStore after(cut(variables, 2), sgd(1), /*seed=*/4, /*groups=*/1);
  files.restore({.checkpoint = "model.ckpt-9",
                 .tensors = {{.name = "a/part_0", .from = "a", .begin = 0},
                             {.name = "a/part_1", .from = "a", .begin = 3},
                             {.name = "b/part_1", .from = "b", .begin = 2}}},
                after);
  const std::map<std::string, Tensor> read = after.copy();
  EXPECT_TRUE(torch::cat({read.at("a/part_0"), read.at("a/part_1")}).equal(copy.at("a")));
  EXPECT_TRUE(read.at("b/part_1").equal(copy.at("b").slice(0, 2, 3)));
}

TEST(PartFiles, TouchNothingButCheckpoints) {
  TempDirectory directory;
  const PartFiles files(directory.path(), nullptr), nowhere("", nullptr);
  ShardStore store(cut({spec_of("a", {4})}, 1), sgd(1), 0, 1);
  for (const std::string name : {"notes.txt", "../model.ckpt-1.part-0-of-1.00000001.safetensors",
                                 "model.ckpt-1.safetensors", ""})
    EXPECT_THAT(message_of([&] { files.write(name, store, store.copy()); }),
                HasSubstr("not a name of a part"));
  for (const std::string name : {"/model.ckpt-1", "../model.ckpt-1", "weights"})
    EXPECT_THAT(message_of([&] { files.restore({.checkpoint = name}, store); }),
                HasSubstr("not a name of a checkpoint"));
  EXPECT_FALSE(files.sees("text"));
  local_file_system().write_atomically(directory / kSightFile, std::string_view("text")).value();
  EXPECT_TRUE(files.sees("text"));
  EXPECT_FALSE(files.sees("other"));
  EXPECT_FALSE(nowhere.sees("text"));
}

TEST(PartFiles, WhatIsNoNumberIsNotWritten) {
  TempDirectory directory;
  const PartFiles files(directory.path(), nullptr);
  ShardStore store(cut({spec_of("a", {2})}, 1), sgd(1), 0, 1);
  store.write({{"a", torch::tensor({1.F, std::numeric_limits<float>::infinity()})}});
  const std::string name = checkpoint_part_name(9, 0, 1, 5);
  const shards::Written written = files.write(name, store, store.copy());
  EXPECT_THAT(written.non_finite, HasSubstr("variable a holds inf (element 1"));
  EXPECT_FALSE(local_file_system().exists(directory / name).value());
}

TEST(Layout, KnowsWhatServersCallAPart) {
  distribute::VariableTable table(0);
  table.get_or_create(spec_of("net/kernel", {4, 2}));
  table.get_or_create(spec_of("net/part_0", {2}));
  const optim::TrainOp op = sgd(1);
  distribute::FlatParameters parameters(
      table, op, [](int64_t bytes) { return torch::zeros({bytes}, at::kByte); });
  const Layout layout(table, parameters, op, {.partitioner = plan::Partitioner::fixed(2)},
                      /*servers=*/2);
  EXPECT_EQ(layout.parts().size(), 4u);
  EXPECT_EQ(layout.logical("net/kernel/part_1").name, "net/kernel");
  EXPECT_EQ(layout.logical("Adam/m/net/kernel/part_1").name, "Adam/m/net/kernel");
  EXPECT_EQ(layout.logical("Adam/m/net/kernel/part_1").part, 1);
  EXPECT_EQ(layout.logical("net/part_0/part_0").name, "net/part_0");
  EXPECT_EQ(layout.logical("Adam/iterations").parts, 1);
  EXPECT_EQ(layout.shards_on(1).size(), 2u);
}

TEST(ThreadPool, DoesAllAndTellsTheFirstError) {
  const Surroundings surroundings;
  ThreadPool pool(3, surroundings);
  std::vector<int> done(3, 0);
  for (int round = 0; round < 20; ++round) pool.run([&](size_t member) { ++done[member]; });
  EXPECT_THAT(done, ElementsAre(20, 20, 20));
  EXPECT_THAT(message_of([&] {
                pool.run([&](size_t member) {
                  if (member > 0) throw invalid_argument("member " + std::to_string(member));
                });
              }),
              HasSubstr("member 1"));
}

// The run goes on where a connection of heartbeats has ended, and nothing else.
TEST(ServerConnections, BeatsGoOnOverAnotherConnection) {
  std::promise<void> goes_on;
  std::atomic<int> beating = 0;
  net::MessageServer server({.address = "127.0.0.1:0", .job = {}, .task = "ps:0"},
                            [&](net::MessageSocket& socket) {
                              constexpr double kPatience = 30;
                              const auto peer = receive_message<net::Handshake>(socket, kPatience);
                              send_answer(socket, net::Welcome());
                              const bool beats = peer && peer->purpose == net::Purpose::kBeat;
                              const int which = beats ? ++beating : 0;
                              while (socket.receive(kPatience)) {
                                if (which == 1) return;
                                if (which == 2) goes_on.set_value();
                                send_answer(socket, Done());
                              }
                            });
  distribute::StartOptions start;
  start.cluster.addresses = {"127.0.0.1:1"};
  start.cluster.ps_addresses = {server.address()};
  start.cluster.num_ps = 1;
  const ServerConnections connections(
      start, {.heartbeat_interval = Seconds(30), .heartbeat_timeout = Seconds(60)},
      /*timeout_seconds=*/30);
  EXPECT_EQ(goes_on.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_FALSE(connections.failure());
}

// A worker that comes again when the run is over may find the first server alone.
TEST(ServerConnections, BeginsWithoutServersThatHaveGoneWithTheRun) {
  net::MessageServer server({.address = "127.0.0.1:0", .job = {}, .task = "ps:0"},
                            [&](net::MessageSocket& socket) {
                              constexpr double kPatience = 30;
                              (void)socket.receive(kPatience);
                              send_answer(socket, net::Welcome());
                              while (socket.receive(kPatience))
                                send_answer(socket, ledger::Place{.finished = true});
                            });
  distribute::StartOptions start;
  start.cluster.addresses = {"127.0.0.1:1", "127.0.0.1:2"};
  start.cluster.ps_addresses = {server.address(),
                                "127.0.0.1:" + std::to_string(free_ports(1).front())};
  start.cluster.num_ps = 2;
  start.cluster.num_workers = 2;
  start.cluster.rank = 1;
  start.cluster.is_chief = false;
  for (const bool overlap : {false, true}) {
    const ServerConnections connections(start, {.overlap = overlap}, /*timeout_seconds=*/30);
    EXPECT_EQ(connections.servers(), 2u);
  }
}

class LedgerHostTest : public ::testing::Test {
 protected:
  LedgerHostTest()
      : host_({.ledger = {.workers = 2},
               .tasks = {"chief", "worker 0"},
               .heartbeat_timeout = 6,
               .clock = &clock_}) {}

  using Claim = StepLedger::Claim::State;
  using Commit = StepLedger::Commit::State;

  static LedgerHost::Asker worker(int rank) {
    return {.rank = rank, .incarnation = 7 + static_cast<uint64_t>(rank), .generation = 1};
  }
  // Another process of the same task.
  static LedgerHost::Asker later(int rank) {
    return {.rank = rank, .incarnation = 99, .generation = 1};
  }
  auto ask(const auto& asked, const LedgerHost::Asker& who = worker(0)) {
    return host_.answer(who, asked);
  }
  int64_t claim(const LedgerHost::Asker& who) { return ask(ledger::Claim(), who).ticket; }
  ErrorKind refusal_of_claim(const LedgerHost::Asker& who) {
    return error_of([&] { ask(ledger::Claim(), who); }).kind();
  }
  void begin() {
    ask(ledger::Begin());
    for (int rank = 0; rank < 2; ++rank) ask(ledger::Join(), worker(rank));
  }

  ManualClock clock_{{.sleep_advances = true}};
  LedgerHost host_;
};

TEST_F(LedgerHostTest, StepsAreClaimedAndCommitted) {
  begin();
  const ledger::Claimed claimed = ask(ledger::Claim(), worker(1));
  EXPECT_EQ(claimed.state, Claim::kGranted);
  const ledger::Committed committed =
      ask(ledger::Commit{.ticket = claimed.ticket, .position = "here", .rows = 5}, worker(1));
  EXPECT_EQ(committed.step, 1);
  EXPECT_EQ(committed.rows, 5);
  EXPECT_TRUE(host_.committed(1, claimed.ticket));
  EXPECT_THAT(ask(ledger::Pause()).positions, ElementsAre("", "here"));
}

// Where there was nothing to train it has made no step itself.
TEST_F(LedgerHostTest, ARunThatIsOverIsAtTheStepThatItsChiefSays) {
  ask(ledger::Finish{938});
  const ledger::Joined joined = ask(ledger::Join(), worker(1));
  EXPECT_EQ(joined.state, ledger::Joined::State::kFinished);
  EXPECT_EQ(joined.step, 938);
}

TEST_F(LedgerHostTest, TheNextStepIsClaimedWithACommit) {
  ask(ledger::Begin{.last_step = 2});
  ask(ledger::Join());
  const ledger::Committed first = ask(ledger::Commit{.ticket = claim(worker(0)), .next = true});
  ASSERT_NE(first.next, 0);
  const ledger::Committed last = ask(ledger::Commit{.ticket = first.next, .next = true});
  EXPECT_EQ(last.step, 2);
  EXPECT_EQ(last.next, 0);
  EXPECT_EQ(ask(ledger::Claim()).state, Claim::kOver);
}

TEST_F(LedgerHostTest, WhoIsSilentHoldsNobodyUpAndHearsSo) {
  begin();
  for (int second = 1; second <= 8; ++second) {
    clock_.advance(from_seconds(1));
    if (second == 4) ask(ledger::Beat());
    host_.look();
  }
  EXPECT_NE(claim(worker(0)), 0);
  const Error error = error_of([&] { claim(worker(1)); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.message(), HasSubstr("worker 0 was taken for lost"));
}

// As when all of a machine is stopped for a while, and its server with it.
TEST_F(LedgerHostTest, ItsOwnStandstillIsNoSilenceOfTheOthers) {
  begin();
  host_.look();
  clock_.advance(from_seconds(600));
  host_.look();
  EXPECT_EQ(ask(ledger::Claim(), worker(1)).state, Claim::kGranted);
  // A worker that stays silent then is lost in the usual time.
  for (int second = 1; second <= 7; ++second) {
    clock_.advance(from_seconds(1));
    ask(ledger::Beat());
    host_.look();
  }
  EXPECT_EQ(refusal_of_claim(worker(1)), ErrorKind::kPeerLost);
}

TEST_F(LedgerHostTest, NobodyGoesOnWhereNobodyIsLeft) {
  begin();
  ::testing::internal::CaptureStderr();
  host_.leave(1, 8);
  host_.leave(0, 7);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("worker 0 was lost, last heard of"));
  EXPECT_EQ(said.find("; the others continue"), said.rfind("; the others continue")) << said;
  EXPECT_LT(said.find("; the others continue"), said.find("chief was lost")) << said;
}

TEST(ToldToStop, IsWhatTheErrorSaysAndNotThatNobodyWantsTheServer) {
  const net::ConnectOptions options{.address = "127.0.0.1:" + std::to_string(free_ports(1).front()),
                                    .cancelled = [] { return true; }};
  const auto message = [&](bool told) {
    return error_of([&] { connect_to({.name = "ps 1"}, options, [told] { return told; }); })
        .message();
  };
  EXPECT_EQ(message(true), "asked to stop while it waited for ps 1");
  EXPECT_THAT(message(false), ::testing::Not(HasSubstr("asked to stop")));
}

TEST_F(LedgerHostTest, AChiefThatIsGoneHoldsNoCut) {
  begin();
  const ledger::Commit commit{.ticket = claim(worker(1))};
  ask(ledger::Pause());
  EXPECT_EQ(ask(commit, worker(1)).state, Commit::kWait);
  host_.leave(0, 7);
  EXPECT_EQ(ask(commit, worker(1)).state, Commit::kAccepted);
  // An earlier process of a task that has come again is not news.
  ask(ledger::Join(), later(0));
  host_.leave(0, 7);
  EXPECT_NE(claim(later(0)), 0);
}

// An earlier process may have died while it waited for a step: it gets none, and takes none from
// the process that came after it.
TEST_F(LedgerHostTest, WhatAnEarlierProcessAskedForSpeaksForNobody) {
  begin();
  ask(ledger::Join(), later(1));
  const ledger::Commit commit{.ticket = claim(later(1))};
  EXPECT_EQ(refusal_of_claim(worker(1)), ErrorKind::kPeerLost);
  clock_.advance(from_seconds(4));
  ask(ledger::Beat(), worker(1));
  // Nor does it end what the later one does.
  ask(ledger::Abandon(), worker(1));
  ask(ledger::Bye(), worker(1));
  EXPECT_EQ(error_of([&] { ask(ledger::EndInput(), worker(1)); }).kind(), ErrorKind::kPeerLost);
  EXPECT_EQ(error_of([&] { ask(ledger::Stop{"a hook"}, worker(1)); }).kind(), ErrorKind::kPeerLost);
  EXPECT_EQ(ask(commit, later(1)).state, Commit::kAccepted);
  EXPECT_EQ(ask(ledger::Claim(), later(1)).state, Claim::kGranted);
}

TEST_F(LedgerHostTest, AnEarlierProcessOfTheChiefEndsNoCutOfTheLaterOne) {
  begin();
  ask(ledger::Pause());
  ask(ledger::Join(), later(0));
  ask(ledger::Pause(), later(0));
  EXPECT_FALSE(ask(ledger::Resume()).holds);
  EXPECT_TRUE(ask(ledger::Resume(), later(0)).holds);
}

// It commits again what counts already, and claims nothing: that would take away the later one's
// step.
TEST_F(LedgerHostTest, AnEarlierProcessClaimsNothingWithItsCommit) {
  begin();
  const ledger::Commit commit{.ticket = claim(worker(1)), .next = true};
  EXPECT_NE(ask(commit, worker(1)).next, 0);
  ask(ledger::Join(), later(1));
  const int64_t of_later = claim(later(1));
  EXPECT_EQ(ask(commit, worker(1)).next, 0);
  EXPECT_EQ(ask(ledger::Commit{.ticket = of_later}, later(1)).state, Commit::kAccepted);
}

// The clock stands still: only the other worker's commit ends the wait.
TEST(LedgerHostWait, EndsWithWhatIsWaitedFor) {
  ManualClock clock;
  LedgerHost host(
      {.ledger = {.workers = 2, .aggregate = 2}, .tasks = {"chief", "worker 0"}, .clock = &clock});
  const auto who = [](int rank) {
    return LedgerHost::Asker{.rank = rank, .incarnation = 7, .generation = 1};
  };
  host.answer(who(0), ledger::Begin());
  std::vector<ledger::Commit> commits;
  for (int rank = 0; rank < 2; ++rank) {
    host.answer(who(rank), ledger::Join());
    commits.push_back({.ticket = host.answer(who(rank), ledger::Claim()).ticket, .wait = 5});
  }
  auto first = std::async(std::launch::async, [&] { return host.answer(who(0), commits[0]); });
  while (clock.sleepers() == 0) std::this_thread::yield();
  EXPECT_EQ(host.answer(who(1), commits[1]).step, 1);
  EXPECT_EQ(first.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  clock.advance(from_seconds(60));
  EXPECT_EQ(first.get().state, StepLedger::Commit::State::kAccepted);
}

// Tickets of a run that was lost with its server have the numbers of those of the next one.
TEST_F(LedgerHostTest, AServerThatAsksAboutAnotherRunTakesNoStepAway) {
  begin();
  const int64_t ticket = claim(worker(1));
  const ledger::Resolve resolve{.rank = 1, .ticket = ticket, .gone = true};
  EXPECT_FALSE(ask(resolve, {.generation = 0}).committed);
  EXPECT_EQ(ask(ledger::Commit{.ticket = ticket}, worker(1)).state, Commit::kAccepted);
  EXPECT_TRUE(ask(resolve, {.generation = 1}).committed);
}

TEST_F(LedgerHostTest, AnotherGenerationIsAnotherRun) {
  begin();
  LedgerHost::Asker who = worker(0);
  who.generation = 2;
  EXPECT_THAT(error_of([&] { claim(who); }).message(), HasSubstr("began again"));
}

TEST_F(LedgerHostTest, AServerThatHasToStopHearsOfTheCheckpointWithItsSteps) {
  using State = ledger::Wanted::State;
  using ledger::Beat;
  begin();
  const auto wants = [&](int64_t commits) {
    return ask(ledger::WantSave{commits}, {.generation = 1}).state;
  };
  EXPECT_EQ(ask(Beat{.saves = false}).wanted, std::nullopt);
  EXPECT_EQ(ask(Beat{.saved = 3}).wanted, std::nullopt);
  EXPECT_EQ(wants(3), State::kWaits) << "it may have been asked to stop since";
  EXPECT_EQ(ask(Beat(), worker(1)).wanted, std::nullopt);
  EXPECT_EQ(ask(Beat{.saved = 3}).wanted, std::nullopt);
  EXPECT_EQ(wants(3), State::kSaved);
  EXPECT_EQ(wants(4), State::kWaits);
  EXPECT_EQ(ask(Beat{.saved = 3}).wanted, 4);
  EXPECT_EQ(wants(3), State::kSaved) << "another server";
  ask(ledger::Pause());
  EXPECT_EQ(ask(Beat{.saved = 3}).wanted, 4) << "the checkpoint may still fail";
  EXPECT_EQ(ask(Beat{.saved = 4}).wanted, std::nullopt);
  ask(Beat{.saved = 3});
  // What is no word of this chief about this run.
  LedgerHost::Asker before = worker(0);
  before.generation = 0;
  ask(Beat{.saved = 9}, before);
  ask(Beat{.saves = false, .saved = 9}, worker(1));
  ask(Beat{.saves = false, .saved = 9}, later(0));
  EXPECT_EQ(wants(3), State::kWaits);
  ask(Beat{.saves = false});
  EXPECT_EQ(wants(3), State::kNever);
}

TEST_F(LedgerHostTest, AMistakeIsEverybodys) {
  begin();
  ask(ledger::Fail{.task = "worker 0", .error = invalid_argument("no such column")}, worker(1));
  const Error error = error_of([&] { claim(worker(0)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0 failed"), HasSubstr("no such column")));
}

}  // namespace
}  // namespace muster::inline v0_1::ps
