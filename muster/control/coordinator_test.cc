// The coordinator over real sockets: in one process, and with processes that are killed and
// stopped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <mutex>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/base/free_ports.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_server.h"

extern char** environ;

namespace muster::inline v0_1::control {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// Short limits, long enough for a busy machine under a sanitizer.
constexpr double kHeartbeatTimeout = 3;
constexpr double kGrace = 0.7;
// Nothing here takes this long unless it hangs.
constexpr auto kForever = std::chrono::seconds(40);

std::string task_of(int rank) { return rank == 0 ? "chief:0" : fmt::format("worker:{}", rank - 1); }

ServerOptions server_options(int tasks, double progress_timeout = 30) {
  ServerOptions options;
  options.address = "127.0.0.1:0";
  options.group.heartbeat_timeout = kHeartbeatTimeout;
  options.group.reconnect_grace = kGrace;
  options.group.progress_timeout = progress_timeout;
  for (int rank = 0; rank < tasks; ++rank) {
    options.group.roster.push_back({task_of(rank), fmt::format("127.0.0.1:{}", 2222 + rank)});
  }
  return options;
}

JoinOptions join_options(const std::string& address, int rank, int tasks) {
  return {.address = address,
          .task = task_of(rank),
          .rank = rank,
          .world_size = tasks,
          .join_deadline = 30,
          .heartbeat_interval = 0.2,
          .heartbeat_timeout = kHeartbeatTimeout,
          .reconnect_grace = kGrace,
          .poll_interval = 0.5};
}

using Client = std::unique_ptr<CoordinatorClient>;

std::vector<Client> join_all(const std::string& address, int tasks, int first = 0) {
  std::vector<std::future<Client>> joining;
  for (int rank = first; rank < tasks; ++rank) {
    joining.push_back(std::async(std::launch::async, [=] {
      return CoordinatorClient::join(join_options(address, rank, tasks));
    }));
  }
  std::vector<Client> clients;
  for (auto& join : joining) clients.push_back(join.get());
  return clients;
}

// What on_failure said, once it did.
class Heard {
 public:
  explicit Heard(CoordinatorClient& client) {
    client.on_failure([state = state_](const Failure& failure) {
      std::lock_guard lock(state->mutex);
      ++state->calls;
      state->failure = failure;
      state->changed.notify_all();
    });
  }
  std::optional<Failure> wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, kForever, [&] { return state_->calls > 0; });
    return state_->failure;
  }
  int calls() {
    std::lock_guard lock(state_->mutex);
    return state_->calls;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int calls = 0;
    std::optional<Failure> failure;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

void eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + kForever;
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(condition());
}

void end_cleanly(std::vector<Client>& clients, CoordinatorServer& server) {
  for (Client& client : clients) client->done();
  for (Client& client : clients) client->close();
  EXPECT_TRUE(server.stop(30));
  EXPECT_FALSE(server.first_failure());
}

// --- in one process ---

TEST(Coordinator, JoinBarrierStoreAndCleanEnd) {
  CoordinatorServer server(server_options(3));
  std::vector<Client> clients = join_all(server.address(), 3);
  for (Client& client : clients) EXPECT_EQ(client->epoch(), clients[0]->epoch());
  EXPECT_GT(clients[0]->epoch(), 1'000'000'000) << "a chief that restarts leads a higher epoch";

  std::atomic<int> arrived = 0;
  std::vector<std::thread> threads;
  for (Client& client : clients) {
    threads.emplace_back([&] {
      for (int round = 1; round <= 5; ++round) {
        ++arrived;
        client->barrier("round");
        EXPECT_GE(arrived, 3 * round) << "a barrier that lets somebody through early";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  const std::string bytes("\0\xff\n", 3);
  std::thread setter([&] { clients[2]->set("key", bytes); });
  EXPECT_EQ(clients[1]->get("key"), bytes);
  setter.join();
  EXPECT_EQ(clients[0]->add("count", 5) + clients[1]->add("count", -2), 8);
  EXPECT_EQ(clients[2]->get("count"), "3");
  EXPECT_EQ(clients[0]->compare_set("leader", "", "me"), "me");
  EXPECT_EQ(clients[1]->compare_set("leader", "", "no, me"), "me");
  EXPECT_TRUE(clients[1]->check({"key", "leader"}));
  EXPECT_FALSE(clients[1]->check({"key", "nothing"}));
  EXPECT_EQ(clients[1]->num_keys(), 3);
  EXPECT_TRUE(clients[1]->erase("key"));
  EXPECT_FALSE(clients[1]->erase("key"));
  clients[0]->wait({"leader", "count"}, 5);
  end_cleanly(clients, server);
}

TEST(Coordinator, AddIsAtomic) {
  CoordinatorServer server(server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 25; ++k) clients[i % 2]->add("n", 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clients[0]->add("n", 0), 100);
  end_cleanly(clients, server);
}

TEST(Coordinator, WaitsEndAtTheirDeadlineAndNameWhatIsMissing) {
  CoordinatorServer server(server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  Error error = error_of([&] { clients[0]->get("never", 0.2); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("'never'"));
  error = error_of([&] { clients[0]->barrier("alone", 0.2); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("\"alone\""), HasSubstr("worker 0 at 127.0.0.1:2223")));
  EXPECT_EQ(error_of([&] { clients[0]->barrier("too many", 0.2, 3); }).kind(),
            ErrorKind::kInvalidArgument);
  clients[1]->set("text", "abc");
  EXPECT_EQ(error_of([&] { clients[0]->add("text", 1); }).kind(), ErrorKind::kInvalidArgument);
  end_cleanly(clients, server);
}

TEST(Coordinator, AMissingWorkerIsNamedAndGivenUpAtTheDeadline) {
  CoordinatorServer server(server_options(3));
  auto give_up = [&](int rank) {
    JoinOptions options = join_options(server.address(), rank, 3);
    options.join_deadline = rank == 0 ? 1.4 : 1.0;
    options.report_every = 0.4;
    return std::async(std::launch::async,
                      [options] { return error_of([&] { CoordinatorClient::join(options); }); });
  };
  testing::internal::CaptureStderr();
  auto chief = give_up(0);
  auto worker = give_up(1);
  for (Error error : {chief.get(), worker.get()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.message(), HasSubstr("worker 1 at 127.0.0.1:2224"));
    EXPECT_THAT(error.hint(), HasSubstr("start the missing task"));
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("chief is waiting for"));
}

TEST(Coordinator, AMissingChiefIsNamed) {
  JoinOptions options = join_options(fmt::format("127.0.0.1:{}", free_port()), 1, 2);
  options.join_deadline = 0.5;
  Error error = error_of([&] { CoordinatorClient::join(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("chief at " + options.address));
}

TEST(Coordinator, AChiefThatCannotReachItsOwnAddressSaysSo) {
  JoinOptions options = join_options(fmt::format("nohost.invalid:{}", free_port()), 0, 2);
  options.join_deadline = 0.5;
  Error error = error_of([&] { CoordinatorClient::join(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("still missing: itself at " + options.address));
  EXPECT_THAT(error.hint(), HasSubstr("give this task an address in TF_CONFIG that it can reach"));
}

TEST(Coordinator, WorkersMayStartBeforeTheChief) {
  const int port = free_port();
  const std::string address = fmt::format("127.0.0.1:{}", port);
  auto early = std::async(std::launch::async,
                          [&] { return CoordinatorClient::join(join_options(address, 1, 2)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ServerOptions options = server_options(2);
  options.address = address;
  CoordinatorServer server(options);
  std::vector<Client> clients;
  clients.push_back(CoordinatorClient::join(join_options(address, 0, 2)));
  clients.push_back(early.get());
  end_cleanly(clients, server);
}

TEST(Coordinator, AnotherClusterIsRefused) {
  CoordinatorServer server(server_options(2));
  Error error = error_of([&] { CoordinatorClient::join(join_options(server.address(), 2, 3)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("worker 1 counts 3 tasks"));
}

TEST(Coordinator, APortInUseIsUnavailable) {
  CoordinatorServer server(server_options(1));
  ServerOptions second = server_options(1);
  second.address = server.address();
  Error error = error_of([&] { CoordinatorServer other(second); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr(server.address()));
}

TEST(Coordinator, AReportedFailureReachesTheOthersWithItsCause) {
  CoordinatorServer server(server_options(3));
  std::vector<Client> clients = join_all(server.address(), 3);
  Heard chief(*clients[0]), worker(*clients[1]), culprit(*clients[2]);
  std::thread waiting([&] {
    Error error = error_of([&] { clients[1]->barrier("never complete"); });
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
    EXPECT_THAT(error.message(), HasSubstr("loss is nan"));
  });
  clients[2]->report(Phase::kTraining, 77);
  clients[2]->fail(ErrorKind::kNonFinite, "loss is nan");
  for (Heard* heard : {&chief, &worker}) {
    std::optional<Failure> failure = heard->wait();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->describe(), "worker 1 failed at step 77 (training): NonFinite: loss is nan");
  }
  waiting.join();
  EXPECT_THROW(clients[0]->check_failure(), Error);
  EXPECT_THROW(clients[0]->get("key"), Error);
  eventually([&] { return clients[2]->first_failure().has_value(); });
  EXPECT_EQ(clients[2]->first_failure()->task, "worker:1");
  clients[2]->close();
  EXPECT_EQ(culprit.calls(), 0) << "it knows";
  EXPECT_EQ(chief.calls(), 1);
}

TEST(Coordinator, DifferentModelsAreAnErrorForAll) {
  CoordinatorServer server(server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  Heard chief(*clients[0]);
  clients[0]->declare_model({"dense/kernel [4,2] float32"});
  Error error = error_of([&] { clients[1]->declare_model({"dense/kernel [4,3] float32"}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("[4,3]"), HasSubstr("chief"),
                                     HasSubstr("[4,2]")));
  ASSERT_TRUE(chief.wait());
  EXPECT_EQ(chief.wait()->task, "worker:0");
}

TEST(Coordinator, AnEvaluatingPeerIsWaitedForBeyondTheProgressLimit) {
  CoordinatorServer server(server_options(2, /*progress_timeout=*/1));
  std::vector<Client> clients = join_all(server.address(), 2);
  clients[0]->report(Phase::kEvaluating, 10);
  std::atomic<bool> passed = false;
  std::thread waiting([&] {
    clients[1]->barrier("evaluated");
    passed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_FALSE(passed);
  clients[0]->barrier("evaluated");
  waiting.join();
  end_cleanly(clients, server);
}

TEST(Coordinator, APeerThatTrainsWithoutProgressIsNot) {
  CoordinatorServer server(server_options(2, /*progress_timeout=*/0.3));
  std::vector<Client> clients = join_all(server.address(), 2);
  for (Client& client : clients) client->report(Phase::kTraining, 10);
  Error error = error_of([&] { clients[1]->barrier("step"); });
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("chief failed at step 10 (training)"), HasSubstr("no progress")));
}

TEST(Coordinator, LeavingEarlyIsALossLeavingAfterTheEndIsNot) {
  CoordinatorServer server(server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  Heard chief(*clients[0]);
  clients[1]->report(Phase::kTraining, 4);
  clients[1].reset();
  ASSERT_TRUE(chief.wait());
  EXPECT_THAT(chief.wait()->describe(),
              AllOf(HasSubstr("worker 0 was lost"), HasSubstr("left before the run was done")));
}

TEST(Coordinator, TheServerWaitsForTheLastGoodbye) {
  CoordinatorServer server(server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  Heard worker(*clients[1]);
  for (Client& client : clients) client->done();
  clients[0]->close();
  EXPECT_FALSE(server.stop(0.3)) << "worker 0 is still there";
  // The coordinator is gone; for a task that is done this is no loss.
  std::this_thread::sleep_for(std::chrono::duration<double>(kGrace + 1));
  EXPECT_EQ(worker.calls(), 0);
  EXPECT_FALSE(clients[1]->first_failure());
  clients[1]->close();
}

TEST(Coordinator, ALostCoordinatorNamesTheChief) {
  auto server = std::make_unique<CoordinatorServer>(server_options(2));
  std::vector<Client> clients = join_all(server->address(), 2);
  clients[1]->report(Phase::kTraining, 30);
  Heard worker(*clients[1]);
  std::thread waiting(
      [&] { EXPECT_EQ(error_of([&] { clients[1]->get("key"); }).kind(), ErrorKind::kPeerLost); });
  server.reset();
  std::optional<Failure> failure = worker.wait();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->task, "chief:0");
  EXPECT_THAT(failure->describe(), AllOf(HasSubstr("chief was lost, last heard of at step 30"),
                                         HasSubstr("the coordinator at")));
  waiting.join();
}

TEST(Coordinator, TheEvaluatorHearsOfTheEnd) {
  CoordinatorServer server(server_options(1));
  JoinOptions options = join_options(server.address(), -1, 1);
  options.task = "evaluator:0";
  Client evaluator = CoordinatorClient::join(options);
  Client chief = CoordinatorClient::join(join_options(server.address(), 0, 1));
  EXPECT_FALSE(evaluator->all_done());
  chief->done();
  EXPECT_TRUE(chief->all_done());
  eventually([&] { return evaluator->all_done(); });
  chief->close();
  evaluator->done();
  evaluator->close();
  EXPECT_TRUE(server.stop(30));
}

TEST(Coordinator, CloseEndsWaits) {
  CoordinatorServer server(server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  std::thread waiting([&] {
    Error error = error_of([&] { clients[1]->get("never"); });
    EXPECT_THAT(error.kind(), AnyOf(ErrorKind::kCancelled, ErrorKind::kPeerLost));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  clients[1]->close();
  waiting.join();
}

// --- with processes ---

// This binary again, as a member of its own: joins (the chief serves too), trains for ever. gRPC
// and fork() do not mix; exec is clean.
class Member {
 public:
  Member(const std::string& address, int rank, int tasks) {
    std::vector<std::string> variables = {
        fmt::format("MUSTER_TEST_MEMBER={} {} {}", address, rank, tasks)};
    for (char** variable = environ; *variable; ++variable) variables.emplace_back(*variable);
    std::vector<char*> environment;
    for (std::string& variable : variables) environment.push_back(variable.data());
    environment.push_back(nullptr);
    char name[] = "coordinator_member";
    char* arguments[] = {name, nullptr};
    if (::posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments, environment.data()) !=
        0)
      pid_ = -1;
    EXPECT_GT(pid_, 0);
  }
  ~Member() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void send(int signal) { ASSERT_EQ(::kill(pid_, signal), 0); }

 private:
  pid_t pid_ = -1;
};

class Struck : public testing::TestWithParam<int> {};

TEST_P(Struck, AWorkerProcessIsNamedByEverySurvivor) {
  CoordinatorServer server(server_options(3));
  Member victim(server.address(), 1, 3);
  std::vector<std::future<Client>> joining;
  for (int rank : {0, 2}) {
    joining.push_back(std::async(std::launch::async, [&, rank] {
      return CoordinatorClient::join(join_options(server.address(), rank, 3));
    }));
  }
  Client chief = joining[0].get(), survivor = joining[1].get();
  Heard chief_heard(*chief), survivor_heard(*survivor);
  survivor->get("worker:0 trains");  // it beats and has a step
  std::thread waiting([&] {
    EXPECT_THAT(error_of([&] { survivor->barrier("step"); }).message(),
                HasSubstr("worker 0 was lost"));
  });
  victim.send(GetParam());
  for (Heard* heard : {&chief_heard, &survivor_heard}) {
    std::optional<Failure> failure = heard->wait();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->task, "worker:0");
    EXPECT_EQ(failure->rank, 1);
    EXPECT_THAT(failure->describe(),
                AllOf(HasSubstr("worker 0 was lost, last heard of at step 120 (training): "),
                      HasSubstr(GetParam() == SIGSTOP ? "no heartbeat for" : "connection closed")));
  }
  waiting.join();
}

TEST_P(Struck, TheChiefProcessIsNamedByTheWorker) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  Member chief(address, 0, 2);
  Client worker = CoordinatorClient::join(join_options(address, 1, 2));
  Heard heard(*worker);
  worker->get("chief:0 trains");
  worker->report(Phase::kTraining, 120);
  chief.send(GetParam());
  std::optional<Failure> failure = heard.wait();
  ASSERT_TRUE(failure);
  EXPECT_THAT(
      failure->describe(),
      AllOf(HasSubstr("chief was lost, last heard of at step 120 (training): the coordinator at " +
                      address),
            HasSubstr(GetParam() == SIGSTOP ? "did not answer" : "closed its connections")));
  EXPECT_EQ(error_of([&] { worker->barrier("step"); }).kind(), ErrorKind::kPeerLost);
}

INSTANTIATE_TEST_SUITE_P(Signals, Struck, testing::Values(SIGKILL, SIGSTOP), [](const auto& info) {
  return info.param == SIGKILL ? "Killed" : "Stopped";
});

int run_member(const std::string& text) {
  char address[64];
  int rank = 0, tasks = 0;
  if (std::sscanf(text.c_str(), "%63s %d %d", address, &rank, &tasks) != 3) return 2;
  std::unique_ptr<CoordinatorServer> server;
  if (rank == 0) {
    ServerOptions options = server_options(tasks);
    options.address = address;
    server = std::make_unique<CoordinatorServer>(options);
  }
  Client client = CoordinatorClient::join(join_options(address, rank, tasks));
  client->report(Phase::kTraining, 120);
  // After two beats the step is known.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  client->set(client->options().task + " trains", "");
  std::this_thread::sleep_for(kForever);
  return 0;
}

}  // namespace
}  // namespace muster::inline v0_1::control

int main(int argc, char** argv) {
  if (const char* member = std::getenv("MUSTER_TEST_MEMBER")) {
    try {
      return muster::control::run_member(member);
    } catch (const std::exception& error) {
      std::cerr << error.what() << "\n";
      return 1;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
