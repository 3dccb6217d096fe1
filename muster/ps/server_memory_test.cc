// Weights and gradients of a server that lie in memory it shares with a worker.
#include "muster/ps/internal/server_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/net/message_server.h"
#include "muster/ps/internal/shard_server.h"
#include "muster/ps/internal/staged_gradients.h"
#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {
namespace {

using ::testing::HasSubstr;

constexpr double kPatience = 60;  // s, for what must not be waited for in vain

FileDescriptor copy_of(const FileDescriptor& file) {
  return FileDescriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
}

// --- weights ---

// Two groups, each with one shard of so many floats.
constexpr int64_t kFloats = 4096;
struct TwoGroups {
  SharedWeights weights{2, 2 * kFloats * 4};
  std::array<Tensor, 2> floats{weights.allocate(kFloats * 4).view(kFloat32),
                               weights.allocate(kFloats * 4).view(kFloat32)};

  shards::Shared told() const {
    return {.bytes = weights.memory().bytes(),
            .groups = 2,
            .shards = {{0, weights.place_of(floats[0])}, {1, weights.place_of(floats[1])}}};
  }
  ServerMemory seen(const shards::Shared& told) const {
    return ServerMemory("ps 0",
                        {{.rows = kFloats, .row_bytes = 4}, {.rows = kFloats, .row_bytes = 4}},
                        told, copy_of(weights.memory().file()));
  }
};

// However often it is changed, a reader has one value everywhere in a group.
TEST(SharedWeights, AGroupIsReadBeforeAnUpdateOrBehindIt) {
  TwoGroups server;
  const ServerMemory memory = server.seen(server.told());
  constexpr int kUpdates = 300;
  std::thread updates([&] {
    for (int i = 1; i <= kUpdates; ++i) {
      for (size_t group = 0; group < 2; ++group) {
        const SharedWeights::Change change(&server.weights, group);
        server.floats[group].fill_(i);
      }
      server.weights.count_step();
    }
  });
  std::vector<Tensor> here{torch::zeros({kFloats}), torch::zeros({kFloats})};
  while (memory.steps() < kUpdates) {
    if (!memory.read(here)) continue;
    for (const Tensor& shard : here)
      ASSERT_EQ(shard.min().item<float>(), shard.max().item<float>());
  }
  updates.join();
  EXPECT_TRUE(memory.read(here));
  EXPECT_EQ(here[1].max().item<float>(), static_cast<float>(kUpdates));
}

// As when the server is killed in it.
TEST(SharedWeights, AnUpdateThatDoesNotEndIsNotWaitedForLong) {
  TwoGroups server;
  const ServerMemory memory = server.seen(server.told());
  const std::vector<Tensor> here{torch::zeros({kFloats}), torch::zeros({kFloats})};
  {
    const SharedWeights::Change change(&server.weights, 1);
    EXPECT_FALSE(memory.read(here));
  }
  EXPECT_TRUE(memory.read(here));
}

TEST(SharedWeights, AWorkerCannotWriteThem) {
  const TwoGroups server;
  EXPECT_EQ(error_of([&] {
              SharedMemory::map(copy_of(server.weights.memory().file()),
                                server.weights.memory().bytes());
            }).kind(),
            ErrorKind::kUnavailable);
}

TEST(ServerMemory, AServerThatLiesAboutPlacesIsRefused) {
  const TwoGroups server;
  const shards::Shared honest = server.told();
  (void)server.seen(honest);
  const int64_t bytes = honest.bytes;
  using Lie = std::function<void(shards::Shared&)>;
  const auto groups = [](uint64_t number) -> Lie {
    return [=](auto& told) { told.groups = number; };
  };
  const auto begin = [](int64_t at) -> Lie {
    return [=](auto& told) { told.shards[1].begin = at; };
  };
  const std::vector<Lie> lies = {[](auto& told) { told.bytes += 4096; },
                                 groups(1),
                                 groups(uint64_t{1} << 40),
                                 [](auto& told) { told.shards[0].group = 2; },
                                 begin(bytes - 4 * kFloats + 8),
                                 begin(-8),
                                 begin(12),
                                 begin(INT64_MAX - 7),
                                 [](auto& told) { std::swap(told.shards[0], told.shards[1]); }};
  for (size_t i = 0; i < lies.size(); ++i) {
    shards::Shared told = honest;
    lies[i](told);
    EXPECT_EQ(error_of([&] { (void)server.seen(told); }).kind(), ErrorKind::kCorrupt) << i;
  }
  shards::Shared fewer = honest;
  fewer.shards.pop_back();
  EXPECT_THAT(error_of([&] { (void)server.seen(fewer); }).message(),
              HasSubstr("1 parts of variables, and 2 are there"));
}

// --- a store ---

VariableSpec ones_of(const std::string& name, Shape shape, bool row_sparse) {
  return {.name = name,
          .shape = std::move(shape),
          .initializer = [](const Shape& of, DType dtype,
                            RandomKey) { return torch::ones(of, at::dtype(dtype)); },
          .row_sparse = row_sparse};
}

ShardOf whole(const VariableSpec& variable) {
  return {.variable = variable, .shard = {.part = 0, .parts = 1, .end = variable.shape[0]}};
}

// A worker that reads meanwhile has to read again, whichever worker changes them.
TEST(ShardStore, WhateverChangesSharedWeightsTellsWhoReadsThem) {
  ShardStore store({whole(ones_of("dense", {8}, false)), whole(ones_of("table", {4, 2}, true))},
                   {.entries = {{.optimizer = optim::sgd({.learning_rate = 1}), .filter = {}}}},
                   /*seed=*/0, /*groups=*/2, /*shared=*/true);
  ASSERT_NE(store.shared(), nullptr);
  const SharedMemory& memory = store.shared()->memory();
  const SharedWeightsReader reader(copy_of(memory.file()), memory.bytes(), store.groups());
  const auto update = [&] {
    const auto staged = store.stage();
    store.destination(*staged, 0).fill_(1);
    store.set_rows(*staged, 1, {torch::tensor({2}, at::kLong), torch::ones({1, 2})});
    store.apply(*staged, 0);
  };
  const auto write = [&] {
    store.write({{"dense", torch::zeros({8})}, {"table", torch::zeros({4, 2})}});
  };
  const auto write_rows = [&] {
    store.write_rows("dense", 2, torch::zeros({3}));
    store.write_rows("table", 1, torch::zeros({2, 2}));
  };
  for (const std::function<void()>& change :
       std::vector<std::function<void()>>{update, write, write_rows}) {
    for (size_t group = 0; group < store.groups(); ++group) {
      int looks = 0;
      EXPECT_TRUE(reader.read(group, [&](const std::byte*) {
        if (++looks == 1) change();
      }));
      EXPECT_EQ(looks, 2);
    }
  }
}

// --- a server and what comes to it ---

// One with a variable float32[8] and a table float32[10, 2], and what a worker of this host says.
class SharingServerTest : public ::testing::Test {
 protected:
  explicit SharingServerTest(bool shared = true, bool local = true,
                             const optim::Optimizer& optimizer = optim::sgd({.learning_rate = 1}))
      : shards_(
            "ps 0", /*seed=*/0,
            [optimizer](VariableStore& variables, const std::string&) {
              variables.get_or_create(ones_of("dense", {8}, false));
              variables.get_or_create(ones_of("table", {10, 2}, true));
              return optim::TrainOp{.entries = {{.optimizer = optimizer, .filter = {}}}};
            },
            [](int64_t, const ledger::Resolve&) { return std::nullopt; }, /*together=*/false,
            kFloat32, shared, PartFiles("", nullptr)),
        server_({.address = "127.0.0.1:0", .job = job_, .task = "ps:0"},
                [this](net::MessageSocket& socket) { serve(socket); }),
        socket_(net::connect_messages({.address = server_.address(),
                                       .job = job_,
                                       .task = "worker:0",
                                       .same_host_shortcut = local})) {
    socket_->keep_files();
    ask(shards::Define{
        .model = {"dense float32[8]", "table float32[10, 2] row-sparse",
                  "optimizer " + optimizer.describe()},
        .shards = {{.variable = "dense", .end = 8}, {.variable = "table", .end = 10}}});
  }

  void serve(net::MessageSocket& socket) {
    ShardServer::Client client{
        .socket = socket, .rank = 0, .is_newest = [this] { return is_newest_.load(); }};
    while (const auto request = receive_message<shards::Request>(socket, kPatience)) {
      try {
        shards_.answer(client, *request);
        if (std::holds_alternative<shards::Push>(request->operation))
          send_answer(socket, shards::Pushed());
      } catch (const Error& error) {
        send_error(socket, error);
      }
    }
  }
  template <typename Operation>
  net::AnswerTo<Operation> ask(const Operation& asked) {
    send_message(*socket_, shards::Request{1, asked});
    auto answer = receive_answer<net::AnswerTo<Operation>>(*socket_, kPatience);
    if (!answer) throw Error(ErrorKind::kTimeout, "no answer");
    return *std::move(answer);
  }
  ServerMemory shared() {
    const shards::Shared told = ask(shards::Share());
    return ServerMemory(
        "ps 0", {{.rows = 8, .row_bytes = 4}, {.rows = 10, .row_bytes = 8, .row_sparse = true}},
        told, socket_->take_file());
  }
  void make_area(ServerMemory& memory, int64_t row_bytes) {
    area_ = ask(shards::MakeArea{row_bytes});
    memory.set_area(area_, socket_->take_file());
  }
  void push(const std::vector<shards::RowsOf>& rows = {}) {
    ask(shards::Push{.ticket = ++ticket_, .dense = {0}, .rows = rows, .in_area = true});
  }

  std::atomic<bool> is_newest_{true};
  cluster::Job job_ = [] {
    cluster::Job job;
    job.token = "a token of sixteen";
    return job;
  }();
  ShardServer shards_;
  net::MessageServer server_;
  std::unique_ptr<net::MessageSocket> socket_;
  shards::Area area_;
  int64_t ticket_ = 0;
};

TEST_F(SharingServerTest, GradientsGoIntoItsMemoryAndWeightsComeOutOfIt) {
  ServerMemory memory = shared();
  make_area(memory, 4096);
  const Tensor ids = torch::tensor({12, 19}, at::kLong);  // of a table whose rows begin at 10 here
  memory.write(0, torch::arange(8, at::kFloat));
  int64_t used = 0;
  const int64_t at = memory.write_rows(ids, 10, torch::full({2, 2}, 3.0F), &used);
  EXPECT_EQ(used, ServerMemory::room_of(ids, torch::empty({2, 2})));
  push({{.shard = 1, .rows = 2, .at = at}});
  EXPECT_EQ(memory.steps(), 0);
  shards_.apply(0, ticket_);
  EXPECT_EQ(memory.steps(), 1);
  const std::vector<Tensor> weights{torch::empty({8}), Tensor()};
  ASSERT_TRUE(memory.read(weights));
  EXPECT_TRUE(weights[0].equal(1 - torch::arange(8, at::kFloat))) << weights[0];
  const Tensor rows = torch::empty({3, 2});
  ASSERT_TRUE(memory.read_rows(1, torch::tensor({2, 3, 9}, at::kLong), rows));
  EXPECT_TRUE(rows.equal(torch::tensor({{-2.F, -2.F}, {1.F, 1.F}, {-2.F, -2.F}}))) << rows;
}

// How old weights are is told by a worker that knows how many updates are in them.
TEST_F(SharingServerTest, UpdatesOfSeveralWorkersAreCountedToo) {
  ServerMemory memory = shared();
  make_area(memory, 4096);
  for (int number = 1; number <= 2; ++number) {
    memory.write(0, torch::ones({8}));
    push();
    shards_.apply_round({.generation = 1, .number = number, .parts = {{0, ticket_}}});
    EXPECT_EQ(memory.steps(), number);
  }
  const std::vector<Tensor> weights{torch::empty({8}), Tensor()};
  ASSERT_TRUE(memory.read(weights));
  EXPECT_TRUE(weights[0].equal(torch::full({8}, -1.0F))) << weights[0];
}

TEST_F(SharingServerTest, LateGradientsOfAProcessThatIsGoneDropNoneOfItsSuccessor) {
  ServerMemory memory = shared();
  make_area(memory, 4096);
  memory.write(0, torch::ones({8}));
  push();
  const int64_t ticket = ticket_;
  is_newest_ = false;
  EXPECT_THAT(error_of([&] { push(); }).message(), HasSubstr("another process of this task"));
  shards_.apply_round({.generation = 1, .number = 1, .parts = {{0, ticket}}});
  EXPECT_EQ(memory.steps(), 1);
}

// Makes no update before it is let.
class HeldRule final : public optim::UpdateRule {
 public:
  std::string name() const override { return "Held"; }
  std::vector<optim::SlotSpec> slots() const override { return {}; }
  double learning_rate() const override { return 1; }
  void update(const optim::Segment& segment, int64_t) const override {
    std::unique_lock lock(mutex_);
    begun_ = true;
    changed_.notify_all();
    // Bounded, so that the test fails rather than hangs.
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return let_; });
    Tensor(segment.weights).sub_(segment.gradient);
  }
  bool wait_until_begun() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return begun_; });
  }
  void let() const {
    const std::lock_guard lock(mutex_);
    let_ = true;
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable bool begun_ = false, let_ = false;
};

class HeldServerTest : public SharingServerTest {
 protected:
  HeldServerTest() : HeldServerTest(std::make_shared<HeldRule>()) {}
  explicit HeldServerTest(const std::shared_ptr<HeldRule>& rule)
      : SharingServerTest(true, true, optim::Optimizer(rule)), rule_(rule) {}

  // The first step's update is under way when this returns, made by another thread than the one
  // that the worker talks to: a checkpoint's, or that of a connection which has ended.
  std::future<void> begin_first_update(const ServerMemory& memory) {
    memory.write(0, torch::ones({8}));
    push();
    auto update = std::async(std::launch::async, [this] { shards_.apply(0, 1); });
    EXPECT_TRUE(rule_->wait_until_begun());
    return update;
  }
  // Time in which what does not wait would be done.
  static void give_time() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

  const std::shared_ptr<HeldRule> rule_;
};

// A worker that hears that its step is made writes the next gradients over those of this step.
TEST_F(HeldServerTest, AStepIsMadeWhenItsUpdateIs) {
  ServerMemory memory = shared();
  make_area(memory, 0);
  std::future<void> update = begin_first_update(memory);
  std::atomic<bool> told = false;
  auto worker = std::async(std::launch::async, [&] {
    shards_.apply(0, 1);
    told = true;
  });
  give_time();
  EXPECT_FALSE(told);
  rule_->let();
  update.get();
  worker.get();
  EXPECT_EQ(memory.steps(), 1);
}

TEST_F(HeldServerTest, GradientsThatComeDuringAnUpdateAreKept) {
  ServerMemory memory = shared();
  make_area(memory, 0);
  std::future<void> update = begin_first_update(memory);
  // As another process of the worker does, over the socket.
  const Tensor next = torch::full({8}, 2.0F);
  auto pushed = std::async(std::launch::async, [&] {
    send_message(*socket_, shards::Request{1, shards::Push{.ticket = 2, .dense = {0}}},
                 std::span(&next, 1));
    return receive_answer<shards::Pushed>(*socket_, kPatience);
  });
  give_time();
  rule_->let();
  update.get();
  EXPECT_TRUE(pushed.get());
  shards_.apply(0, 2);
  const std::vector<Tensor> weights{torch::empty({8}), Tensor()};
  ASSERT_TRUE(memory.read(weights));
  EXPECT_TRUE(weights[0].equal(torch::full({8}, -2.0F))) << weights[0];
}

TEST_F(SharingServerTest, AServerAtItsEndGivesNoCopyThatLacksSteps) {
  shards_.close();
  EXPECT_EQ(error_of([&] { ask(shards::Snapshot{.commits = 1}); }).kind(), ErrorKind::kPeerLost);
}

TEST_F(SharingServerTest, AWorkerThatLiesAboutPlacesIsRefused) {
  ServerMemory memory = shared();
  EXPECT_THAT(message_of([&] { push(); }), HasSubstr("memory that it does not share"));
  make_area(memory, 4096);
  const int64_t bytes = area_.bytes;
  const int64_t first = area_.dense_bytes;
  const auto said = [&](int64_t rows, int64_t at) {
    return error_of([&] { push({{.shard = 1, .rows = rows, .at = at}}); }).kind();
  };
  for (const auto& [rows, at] : std::vector<std::pair<int64_t, int64_t>>{{2, bytes},
                                                                         {2, -64},
                                                                         {2, 0},
                                                                         {2, first + 8},
                                                                         {-1, first},
                                                                         {1 << 20, first},
                                                                         {INT64_MAX, first},
                                                                         {1, INT64_MIN}})
    EXPECT_EQ(said(rows, at), ErrorKind::kInvalidArgument) << rows << " " << at;
  // Rows that the table does not have.
  int64_t used = 0;
  const int64_t at =
      memory.write_rows(torch::tensor({10}, at::kLong), 0, torch::zeros({1, 2}), &used);
  EXPECT_EQ(said(1, at), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { ask(shards::MakeArea{INT64_MAX}); }).kind(),
            ErrorKind::kInvalidArgument);
  // It goes on serving.
  push();
}

// Over TCP, as from another host, and where a server does not share: then there are sockets.
class FarServerTest : public SharingServerTest {
 protected:
  FarServerTest() : SharingServerTest(/*shared=*/true, /*local=*/false) {}
};
class ClosedServerTest : public SharingServerTest {
 protected:
  ClosedServerTest() : SharingServerTest(/*shared=*/false) {}
};

TEST_F(FarServerTest, ShowsNoMemory) {
  EXPECT_FALSE(socket_->carries_files());
  EXPECT_EQ(ask(shards::Share()).bytes, 0);
}

TEST_F(ClosedServerTest, ShowsNoMemory) {
  EXPECT_TRUE(socket_->carries_files());
  EXPECT_EQ(ask(shards::Share()).bytes, 0);
  EXPECT_FALSE(socket_->take_file().is_open());
}

TEST_F(SharingServerTest, ALyingServersAreaIsRefused) {
  ServerMemory memory = shared();
  const shards::Area honest = ask(shards::MakeArea{4096});
  const FileDescriptor file = socket_->take_file();
  const int64_t bytes = honest.bytes;
  const std::vector<std::function<void(shards::Area&)>> lies = {
      [](auto& told) { told.bytes *= 2; }, [=](auto& told) { told.dense_bytes = bytes + 64; },
      [](auto& told) { told.dense_bytes = -64; }, [=](auto& told) { told.shards[0] = bytes; },
      [](auto& told) { told.shards[0] = -64; }};
  for (size_t i = 0; i < lies.size(); ++i) {
    shards::Area told = honest;
    lies[i](told);
    EXPECT_EQ(error_of([&] { memory.set_area(told, copy_of(file)); }).kind(), ErrorKind::kCorrupt)
        << i;
  }
}

}  // namespace
}  // namespace muster::inline v0_1::ps
