// The coordinator over real sockets, with processes that are killed and stopped. This process uses
// a clock that the test moves, one beat of the survivors after the other.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/clock.h"
#include "muster/base/error_of.h"
#include "muster/base/free_ports.h"
#include "muster/base/process_identity.h"
#include "muster/control/internal/test_clients.h"
#include "muster/control/internal/tls_member.h"
#include "muster/launch/child_process.h"
#include "muster/net/socket_channel.h"

namespace muster::inline v0_1::control {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// This binary again, as a member of its own: joins (the chief serves too), trains for ever.
// Threads and fork() do not mix; exec is clean.
launch::ChildProcess start_member(const std::string& address, int rank, int tasks) {
  return launch::ChildProcess(
      {.argv = {"/proc/self/exe"},
       .environment = {{"MUSTER_TEST_MEMBER", fmt::format("{} {} {}", address, rank, tasks)}},
       .dies_with_parent = true});
}

int run_member(const std::string& text) {
  char address[64];
  int rank = 0, tasks = 0;
  if (std::sscanf(text.c_str(), "%63s %d %d", address, &rank, &tasks) != 3) return 2;
  std::unique_ptr<CoordinatorServer> server;
  if (rank == 0) {
    ServerOptions options = test_server_options(tasks);
    options.address = address;
    server = std::make_unique<CoordinatorServer>(options);
  }
  Client client = CoordinatorClient::join(test_join_options(address, rank, tasks));
  client->report(Phase::kTraining, 120);
  // The test kills or stops this process; it ends by itself when the test has died.
  std::this_thread::sleep_for(kForever);
  return 0;
}

// A SocketChannel with two things that tests need: answers are counted, and where the coordinator
// `hangs` one without an answer takes little real time; the clock is moved by the rest.
class CountedChannel : public net::CoordinatorChannel {
 public:
  CountedChannel(const std::string& address, ManualClock& clock, std::atomic<int>& answered,
                 const std::atomic<bool>& hangs)
      : channel_(address), clock_(clock), answered_(answered), hangs_(hangs) {}
  Result<net::Reply> join(const net::JoinRequest& request, double timeout) override {
    Result<net::Reply> reply = channel_.join(request, timeout);
    if (reply.ok()) ++answered_;
    return reply;
  }
  Result<net::Reply> beat(const net::BeatRequest& request, double timeout) override {
    const double real = std::min(timeout, 0.3);
    const auto late = [](const Result<net::Reply>& reply) {
      return !reply.ok() && reply.error().kind() == ErrorKind::kTimeout;
    };
    Result<net::Reply> reply = channel_.beat(request, real);
    // A coordinator that does not hang is on a busy machine.
    while (late(reply) && !hangs_) reply = channel_.beat(request, real);
    if (late(reply)) clock_.advance(from_seconds(timeout - real));
    ++answered_;
    return reply;
  }
  Result<net::Reply> declare_model(const net::ModelRequest& request, double timeout) override {
    return channel_.declare_model(request, timeout);
  }
  Result<net::Reply> barrier(const net::BarrierRequest& request, double timeout) override {
    return channel_.barrier(request, timeout);
  }
  Result<net::Reply> store(const net::StoreRequest& request, double timeout) override {
    return channel_.store(request, timeout);
  }
  Result<net::Reply> fail(const net::FailRequest& request, double timeout) override {
    return channel_.fail(request, timeout);
  }
  Result<net::Reply> goodbye(const net::GoodbyeRequest& request, double timeout) override {
    return channel_.goodbye(request, timeout);
  }
  Status watch(const plan::Caller& who,
               const std::function<void(const net::Reply&)>& receive) override {
    return channel_.watch(who, receive);
  }
  void close() override { channel_.close(); }

 private:
  net::SocketChannel channel_;
  ManualClock& clock_;
  std::atomic<int>& answered_;
  const std::atomic<bool>& hangs_;
};

class Struck : public testing::TestWithParam<int> {
 protected:
  // Joins from this process, on the test's clock.
  std::future<Client> join(const std::string& address, int rank, int tasks) {
    return std::async(std::launch::async, [this, address, rank, tasks] {
      JoinOptions options = test_join_options(address, rank, tasks);
      options.clock = &clock_;
      options.connect = [this, rank](const std::string& to) {
        return std::make_unique<CountedChannel>(to, clock_, beats_[rank], coordinator_hangs_);
      };
      return CoordinatorClient::join(options);
    });
  }

  // Lets the clock run, as fast as the survivors beat, until all have been notified of a failure.
  void let_time_pass(std::vector<std::pair<int, CoordinatorClient*>> survivors) {
    const auto until = std::chrono::steady_clock::now() + kForever;
    const auto all_heard = [&] {
      return std::all_of(survivors.begin(), survivors.end(),
                         [](const auto& one) { return one.second->first_failure().has_value(); });
    };
    while (!all_heard() && std::chrono::steady_clock::now() < until) {
      std::array<int, 3> before{};
      for (const auto& [rank, client] : survivors) before[rank] = beats_[rank];
      clock_.advance(std::chrono::milliseconds(200));
      for (const auto& [rank, client] : survivors) {
        while (beats_[rank] == before[rank] && std::chrono::steady_clock::now() < until) {
          // Beats travel over real sockets, in real time; a short sleep leaves the core to them.
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }
    }
  }

  ManualClock clock_;
  std::array<std::atomic<int>, 3> beats_{};
  std::atomic<bool> coordinator_hangs_ = false;
};

TEST_P(Struck, AWorkerProcessIsNamedByEverySurvivor) {
  ServerOptions options = test_server_options(3);
  options.clock = &clock_;
  // The clock may run far before a busy machine reports the closed connection.
  if (GetParam() == SIGKILL) options.group.heartbeat_timeout = 1e6;
  CoordinatorServer server(options);
  launch::ChildProcess victim = start_member(server.address(), 1, 3);
  auto joining_chief = join(server.address(), 0, 3),
       joining_survivor = join(server.address(), 2, 3);
  Client chief = joining_chief.get(), survivor = joining_survivor.get();
  Heard chief_heard(*chief), survivor_heard(*survivor);
  // The end of its connection shows that a process was killed.
  await([&] { return server.connections() == 3; });
  // The coordinator knows where the victim is.
  await([&] {
    return error_of([&] { chief->barrier("alone", 0); }).message().find("at step 120 (training)") !=
           std::string::npos;
  });
  std::thread waiting([&] {
    EXPECT_THAT(error_of([&] { survivor->barrier("step"); }).message(),
                HasSubstr("worker 0 was lost"));
  });
  victim.signal(GetParam());
  let_time_pass({{0, chief.get()}, {2, survivor.get()}});
  for (Heard* heard : {&chief_heard, &survivor_heard}) {
    std::optional<Failure> failure = heard->wait();
    EXPECT_TRUE(failure);
    if (!failure) break;
    EXPECT_EQ(failure->task, "worker:0");
    EXPECT_EQ(failure->rank, 1);
    EXPECT_THAT(
        failure->describe(),
        AllOf(HasSubstr("worker 0 was lost, last heard of at step 120 (training): "),
              HasSubstr(GetParam() == SIGSTOP ? "no heartbeat for" : "its process has ended")));
  }
  survivor->close();
  waiting.join();
}

TEST_P(Struck, TheChiefProcessIsNamedByTheWorker) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  launch::ChildProcess chief = start_member(address, 0, 2);
  auto joining = join(address, 1, 2);
  // Tries before the chief has started pause on the clock.
  while (joining.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
    clock_.advance(std::chrono::milliseconds(10));
  }
  Client worker = joining.get();
  Heard heard(*worker);
  worker->report(Phase::kTraining, 120);
  coordinator_hangs_ = GetParam() == SIGSTOP;
  chief.signal(GetParam());
  let_time_pass({{1, worker.get()}});
  std::optional<Failure> failure = heard.wait();
  ASSERT_TRUE(failure);
  EXPECT_THAT(
      failure->describe(),
      AllOf(HasSubstr("chief was lost, last heard of at step 120 (training): the coordinator at " +
                      address),
            HasSubstr(GetParam() == SIGSTOP ? "no heartbeat" : "its process has ended")));
  EXPECT_EQ(error_of([&] { worker->barrier("step"); }).kind(), ErrorKind::kPeerLost);
}

// Silence and a closed connection mean nothing here: the end of the process does.
ServerOptions patient_server(int tasks) {
  ServerOptions options = test_server_options(tasks);
  options.group.heartbeat_timeout = options.group.reconnect_timeout = 1e6;
  return options;
}

TEST(KilledInJoin, AWaitingWorkerIsNamedAtOnce) {
  const CoordinatorServer server(patient_server(4));
  launch::ChildProcess victim = start_member(server.address(), 1, 4);
  auto chief = std::async(std::launch::async, [&] {
    return error_of([&] { CoordinatorClient::join(test_join_options(server.address(), 0, 4)); });
  });
  // The third task hears that the fourth is missing, and no other.
  net::SocketChannel third(server.address());
  await([&] {
    const auto reply = third.join({.who = {task_of(2), 1}, .rank = 2, .world_size = 4}, kAnswer);
    return reply.ok() && reply.value().verdict.missing.size() == 1;
  });
  victim.signal(SIGKILL);
  const Error error = chief.get();
  EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0"), HasSubstr("its process has ended")));
}

TEST(KilledInJoin, TheChiefIsNamedAtOnceByAWorkerThatWaits) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  launch::ChildProcess chief = start_member(address, 0, 4);
  ManualClock unused;
  std::atomic<int> answered = 0;
  const std::atomic<bool> hangs = false;
  auto worker = std::async(std::launch::async, [&] {
    JoinOptions options = test_join_options(address, 1, 4);
    options.connect = [&](const std::string& to) {
      return std::make_unique<CountedChannel>(to, unused, answered, hangs);
    };
    return error_of([&] { CoordinatorClient::join(options); });
  });
  // It knows the chief's process now.
  await([&] { return answered > 0; });
  chief.signal(SIGKILL);
  const Error error = worker.get();
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("chief was lost while worker 0 waited to join its group: "
                                         "its process has ended"));
}

TEST(KilledInJoin, AMemberThatHasNotHeardOfTheGroupIsNamedAtOnce) {
  const CoordinatorServer server(patient_server(2));
  launch::ChildProcess victim({.argv = {"sleep", "600"}, .dies_with_parent = true});
  auto joining = std::async(std::launch::async, [&] {
    return CoordinatorClient::join(test_join_options(server.address(), 0, 2));
  });
  net::SocketChannel channel(server.address());
  await([&] {
    const auto reply = channel.join({.who = {task_of(1), 1},
                                     .rank = 1,
                                     .world_size = 2,
                                     .process = {own_process().space, victim.pid()}},
                                    kAnswer);
    return reply.ok() && reply.value().verdict.state == plan::Verdict::State::kReady;
  });
  const Client chief = joining.get();
  Heard heard(*chief);
  victim.signal(SIGKILL);
  const std::optional<Failure> failure = heard.wait();
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->describe(),
              AllOf(HasSubstr("worker 0 was lost"), HasSubstr("its process has ended")));
}

INSTANTIATE_TEST_SUITE_P(Signals, Struck, testing::Values(SIGKILL, SIGSTOP), [](const auto& info) {
  return info.param == SIGKILL ? "Killed" : "Stopped";
});

}  // namespace
}  // namespace muster::inline v0_1::control

int main(int argc, char** argv) {
  const char* member = std::getenv("MUSTER_TEST_MEMBER");
  if (member || std::getenv("MUSTER_TEST_TLS_MEMBER")) {
    try {
      return member ? muster::control::run_member(member) : muster::control::run_tls_member();
    } catch (const std::exception& error) {
      std::cerr << error.what() << "\n";
      return 1;
    }
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
