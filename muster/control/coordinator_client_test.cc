// Clients and their coordinator over real sockets, in one process.
#include "muster/control/coordinator_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/clock.h"
#include "muster/base/error_of.h"
#include "muster/base/free_ports.h"
#include "muster/base/log.h"
#include "muster/control/coordinator_server.h"
#include "muster/control/internal/missing.h"
#include "muster/control/internal/test_clients.h"
#include "muster/net/socket_channel.h"

namespace muster::inline v0_1::control {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

TEST(Coordinator, JoinBarrierStoreAndCleanEnd) {
  CoordinatorServer server(test_server_options(3));
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

  EXPECT_TRUE(clients[1]->check({"key", "count"}));
  EXPECT_FALSE(clients[1]->check({"key", "nothing"}));
  EXPECT_TRUE(clients[1]->erase("key"));
  EXPECT_FALSE(clients[1]->erase("key"));
  end_cleanly(clients, server);
}

// Its peers would wait ten minutes for it.
TEST(Coordinator, ATaskThatCannotStartTellsThoseWhoWaitForIt) {
  CoordinatorServer server(test_server_options(2));
  auto waiting = std::async(std::launch::async, [&] {
    return error_of([&] { CoordinatorClient::join(test_join_options(server.address(), 0, 2)); });
  });
  net::SocketChannel channel(server.address());
  ASSERT_TRUE(channel
                  .fail({.who = {"worker:0", 5},
                         .kind = ErrorKind::kNotFound,
                         .reason = "it could not start: there is no folder /data",
                         .rank = 1,
                         .world_size = 2},
                        kAnswer)
                  .ok());
  ASSERT_EQ(waiting.wait_for(kForever), std::future_status::ready);
  const Error error = waiting.get();
  // Nor would a restart help this one, so it does not ask for one.
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("worker 0 failed while joining"),
                                     HasSubstr("there is no folder /data")));
}

// So a chief that cannot start either may end.
TEST(Coordinator, KnowsWhenAllKnowOfAStartFailure) {
  const CoordinatorServer server(test_server_options(2));
  net::SocketChannel channel(server.address());
  for (const int rank : {0, 1}) {
    EXPECT_FALSE(server.all_know_of_start_failure());
    ASSERT_TRUE(channel
                    .fail({.who = {task_of(rank), 5},
                           .kind = ErrorKind::kInvalidArgument,
                           .reason = "it could not start: --epocs is not a flag",
                           .rank = rank,
                           .world_size = 2},
                          kAnswer)
                    .ok());
  }
  EXPECT_TRUE(server.all_know_of_start_failure());
}

// It ends nobody's wait, since another process may come in its place; those who wait hear of it at
// once.
TEST(Coordinator, ATaskThatWasToldToStopWhileItJoinsTellsThoseWhoWait) {
  CoordinatorServer server(test_server_options(4));
  // Whether a task was told to stop, and how often it asked: once a try.
  struct Told {
    std::atomic<bool> stop = false;
    std::atomic<int> tries = 0;
  } first_told, second_told;
  const auto joining = [&](int rank, Told& told) {
    JoinOptions join = test_join_options(server.address(), rank, 4);
    join.cancelled = [&told] {
      ++told.tries;
      return told.stop.load();
    };
    join.report_every = 1000;
    return std::async(std::launch::async,
                      [join] { return error_of([&] { CoordinatorClient::join(join); }); });
  };
  // What a third task hears; the fourth never comes.
  net::SocketChannel channel(server.address());
  const auto missing = [&] {
    return describe(channel.join({.who = {task_of(2), 7}, .rank = 2, .world_size = 4}, kAnswer)
                        .value()
                        .verdict.missing);
  };
  testing::internal::CaptureStderr();
  auto first = joining(0, first_told);
  auto second = joining(1, second_told);
  await([&] { return missing().starts_with("worker 2 at "); });
  second_told.stop = true;
  EXPECT_EQ(second.get().kind(), ErrorKind::kCancelled);
  EXPECT_THAT(missing(), HasSubstr("worker 0 at 127.0.0.1:2223, which was asked to stop"));
  const int tries = first_told.tries;
  await([&] { return first_told.tries >= tries + 3; });
  // Another process of that name.
  (void)channel.join({.who = {task_of(1), 8}, .rank = 1, .world_size = 4}, kAnswer);
  EXPECT_THAT(missing(), Not(HasSubstr("asked to stop")));
  first_told.stop = true;
  EXPECT_EQ(first.get().kind(), ErrorKind::kCancelled);
  log::flush();
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("chief is waiting for worker 0 at 127.0.0.1:2223, which was asked to stop"));
}

TEST(Coordinator, ATaskThatWasToldToStopLeavesABarrierOthersDoNotComeTo) {
  CoordinatorServer server(test_server_options(2));
  std::atomic<bool> stop = false;
  std::vector<Client> clients(2);
  auto second = std::async(std::launch::async, [&] {
    return CoordinatorClient::join(test_join_options(server.address(), 1, 2));
  });
  JoinOptions join = test_join_options(server.address(), 0, 2);
  join.cancelled = [&] { return stop.load(); };
  clients[0] = CoordinatorClient::join(join);
  clients[1] = second.get();
  // A task that saves will come; a task that trains may not.
  for (const Phase phase : {Phase::kTraining, Phase::kSaving}) {
    stop = false;
    clients[1]->report(phase, 7);
    // The coordinator hears of it with a heartbeat.
    const char* what = phase == Phase::kTraining ? "(training)" : "(saving)";
    await([&] {
      return error_of([&] { clients[0]->barrier("alone", 0); }).message().find(what) !=
             std::string::npos;
    });
    // Where it is waited for, the time is over before the others come.
    auto waiting = std::async(std::launch::async, [&] {
      const double time = phase == Phase::kTraining ? kAnswer : 3;
      return error_of([&] { clients[0]->barrier("end", time); });
    });
    stop = true;
    ASSERT_EQ(waiting.wait_for(kForever), std::future_status::ready);
    const Error error = waiting.get();
    EXPECT_EQ(error.kind(),
              phase == Phase::kTraining ? ErrorKind::kCancelled : ErrorKind::kTimeout);
    EXPECT_THAT(error.message(), HasSubstr("worker 0"));
  }
  // Everybody comes to the last one.
  stop = true;
  clients[1]->report(Phase::kTraining, 8);
  auto waiting = std::async(std::launch::async, [&] { clients[0]->last_barrier(); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(700)), std::future_status::timeout);
  clients[1]->last_barrier();
  ASSERT_EQ(waiting.wait_for(kForever), std::future_status::ready);
  EXPECT_NO_THROW(waiting.get());
  end_cleanly(clients, server);
}

TEST(Coordinator, AddIsAtomic) {
  CoordinatorServer server(test_server_options(2));
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
  CoordinatorServer server(test_server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  Error error = error_of([&] { clients[0]->get("never", 0.2); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("'never'"));
  error = error_of([&] { clients[0]->barrier("alone", 0.2); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("\"alone\""), HasSubstr("worker 0 at 127.0.0.1:2223")));
  clients[1]->set("text", "abc");
  EXPECT_EQ(error_of([&] { clients[0]->add("text", 1); }).kind(), ErrorKind::kInvalidArgument);
  end_cleanly(clients, server);
}

TEST(Coordinator, AMissingWorkerIsNamedAndGivenUpAtTheDeadline) {
  CoordinatorServer server(test_server_options(3));
  ManualClock clock;
  std::array<std::atomic<int>, 2> tries{};
  auto give_up = [&](int rank) {
    JoinOptions options = test_join_options(server.address(), rank, 3);
    options.clock = &clock;
    options.join_timeout = 1;
    options.report_every = 0.4;
    options.cancelled = [&tries, rank] {
      ++tries.at(rank);
      return false;
    };
    return std::async(std::launch::async,
                      [options] { return error_of([&] { CoordinatorClient::join(options); }); });
  };
  testing::internal::CaptureStderr();
  auto chief = give_up(0);
  auto worker = give_up(1);
  // Time passes when both have asked.
  for (const auto passed : {std::chrono::milliseconds(500), std::chrono::milliseconds(600)}) {
    const std::array<int, 2> before = {tries[0], tries[1]};
    await([&] { return tries[0] > before[0] && tries[1] > before[1]; });
    clock.advance(passed);
  }
  for (Error error : {chief.get(), worker.get()}) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.message(), HasSubstr("worker 1 at 127.0.0.1:2224"));
    EXPECT_THAT(error.hint(), HasSubstr("start the missing task"));
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("chief is waiting for"));
}

// As an HTTP server does, until the request is complete.
TEST(Coordinator, AnotherProgramAtTheChiefsAddressIsNamed) {
  const int other = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::listen(other, 16), 0);  // on a port that the system chooses
  sockaddr_in where{};
  socklen_t size = sizeof where;
  ASSERT_EQ(::getsockname(other, reinterpret_cast<sockaddr*>(&where), &size), 0);
  JoinOptions options =
      test_join_options("127.0.0.1:" + std::to_string(ntohs(where.sin_port)), 1, 2);
  options.join_timeout = 1;
  const Error error = error_of([&] { CoordinatorClient::join(options); });
  ::close(other);
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("it accepts the connection and does not answer"));
}

TEST(Coordinator, OfATaskThatDoesNotComeIsSaidOnceHowItHasToBeStarted) {
  CoordinatorServer server(test_server_options(2));
  ManualClock clock;
  std::atomic<int> tries = 0;
  JoinOptions options = test_join_options(server.address(), 0, 2);
  options.clock = &clock;
  options.join_timeout = 100;
  options.poll_interval = 0.05;
  options.how_started = [](const std::string& task) { return "with TASK=" + task; };
  options.cancelled = [&tries] {
    ++tries;
    return false;
  };
  testing::internal::CaptureStderr();
  auto chief = std::async(std::launch::async,
                          [&] { return error_of([&] { CoordinatorClient::join(options); }); });
  // Lines are due at 10, 20, 30 and 40 s; at the end it gives up.
  for (const int passed : {10, 10, 10, 10, 100}) {
    const int before = tries;
    await([&] { return tries > before + 1 || passed == 100; });
    clock.advance(std::chrono::seconds(passed));
  }
  EXPECT_EQ(chief.get().kind(), ErrorKind::kTimeout);
  log::flush();
  const std::string text = testing::internal::GetCapturedStderr();
  const std::string look =
      "; was worker 0 started, with TASK=worker:0? its output says why it does not come\n";
  EXPECT_THAT(text, HasSubstr(look));
  EXPECT_EQ(text.find(look), text.rfind(look));
  // With the third line, at 30 s.
  const std::string until = text.substr(0, text.find(look));
  size_t lines = 0;
  for (size_t at = 0; (at = until.find("is waiting for", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3u) << text;
}

// Where tasks have met before, one of them makes a call that another one does not make.
TEST(Coordinator, WhoDoesNotComeAgainIsSaidToMakeAnotherCall) {
  CoordinatorServer server(test_server_options(2));
  ManualClock clock;
  std::atomic<int> tries = 0;
  JoinOptions options = test_join_options(server.address(), 0, 2);
  options.clock = &clock;
  options.join_timeout = 100;
  options.poll_interval = 0.05;
  options.again = true;
  options.call = "Estimator::evaluate()";
  options.cancelled = [&tries] {
    ++tries;
    return false;
  };
  testing::internal::CaptureStderr();
  auto chief = std::async(std::launch::async,
                          [&] { return error_of([&] { CoordinatorClient::join(options); }); });
  for (const int passed : {6, 100}) {
    const int before = tries;
    await([&] { return tries > before + 1; });
    clock.advance(std::chrono::seconds(passed));
  }
  const Error error = chief.get();
  log::flush();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("was in a group with this task before: it has ended, or has not come to "
                        "Estimator::evaluate()"));
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("in Estimator::evaluate() for the group to form"));
  EXPECT_THAT(error.hint(), HasSubstr("Who calls what"));
}

// The ten seconds allow for a restart.
TEST(Coordinator, WhoWaitsForAProcessThatHasEndedSaysWithoutWhichCall) {
  CoordinatorServer server(test_server_options(3));
  ManualClock clock;
  std::atomic<int> tries = 0;
  const auto wait = [&](int rank) {
    JoinOptions options = test_join_options(server.address(), rank, 3);
    options.clock = &clock;
    options.poll_interval = 0.05;
    options.call = "Estimator::evaluate()";
    // Worker 1 knows nothing of worker 0, as on another machine.
    if (rank == 0) {
      options.ended = [&tries](const std::string& task) -> std::optional<int> {
        ++tries;
        return task == "worker:0" ? std::optional(1) : std::nullopt;
      };
    }
    return std::async(std::launch::async,
                      [options] { return error_of([&] { CoordinatorClient::join(options); }); });
  };
  auto other = wait(2), chief = wait(0);
  for (int passed = 0; passed < 11; ++passed) {
    const int before = tries;
    const auto over = [&] {
      return chief.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    };
    const bool asked = comes_true([&] { return tries > before || over(); });
    EXPECT_TRUE(asked);
    if (!asked) break;
    EXPECT_TRUE(passed > 8 || !over()) << passed;
    clock.advance(std::chrono::seconds(1));
  }
  EXPECT_TRUE(comes_true([&] {
    return chief.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
           other.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
  // So that the test ends where they wait on.
  clock.advance(std::chrono::seconds(1000));
  const Error error = chief.get();
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("worker 0 does not come: its process has ended without "
                                         "Estimator::evaluate(), to which chief came"));
  EXPECT_THAT(error.hint(), HasSubstr("Who calls what"));
  const Error heard = other.get();
  EXPECT_EQ(heard.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(heard.message(), HasSubstr("worker 0 failed"));
  EXPECT_THAT(heard.message(), HasSubstr("without Estimator::evaluate()"));
}

TEST(Coordinator, AMissingChiefIsNamed) {
  JoinOptions options = test_join_options(fmt::format("127.0.0.1:{}", free_port()), 1, 2);
  options.join_timeout = 0.5;
  Error error = error_of([&] { CoordinatorClient::join(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("chief at " + options.address));
}

TEST(Coordinator, AChiefThatCannotReachItsOwnAddressSaysSo) {
  JoinOptions options = test_join_options(fmt::format("nohost.invalid:{}", free_port()), 0, 2);
  options.join_timeout = 0.5;
  options.job.insecure = true;
  Error error = error_of([&] { CoordinatorClient::join(options); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("still missing: itself at " + options.address));
  EXPECT_THAT(error.hint(), HasSubstr("give this task an address in TF_CONFIG that it can reach"));
}

TEST(Coordinator, WorkersMayStartBeforeTheChief) {
  const int port = free_port();
  const std::string address = fmt::format("127.0.0.1:{}", port);
  std::atomic<int> tries = 0;
  auto early = std::async(std::launch::async, [&] {
    JoinOptions join = test_join_options(address, 1, 2);
    join.cancelled = [&] {
      ++tries;
      return false;
    };
    return CoordinatorClient::join(join);
  });
  await([&] { return tries > 0; });
  ServerOptions options = test_server_options(2);
  options.address = address;
  CoordinatorServer server(options);
  std::vector<Client> clients;
  clients.push_back(CoordinatorClient::join(test_join_options(address, 0, 2)));
  clients.push_back(early.get());
  end_cleanly(clients, server);
}

TEST(Coordinator, AnotherClusterIsRefused) {
  CoordinatorServer server(test_server_options(2));
  Error error =
      error_of([&] { CoordinatorClient::join(test_join_options(server.address(), 2, 3)); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("worker 1 counts 3 tasks"));
}

TEST(Coordinator, APortInUseIsUnavailable) {
  CoordinatorServer server(test_server_options(1));
  ServerOptions second = test_server_options(1);
  second.address = server.address();
  Error error = error_of([&] { CoordinatorServer other(second); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr(server.address()));
}

TEST(Coordinator, AReportedFailureReachesTheOthersWithItsCause) {
  CoordinatorServer server(test_server_options(3));
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
  await([&] { return clients[2]->first_failure().has_value(); });
  EXPECT_EQ(clients[2]->first_failure()->task, "worker:1");
  clients[2]->close();
  EXPECT_EQ(culprit.calls(), 0) << "it knows";
  EXPECT_EQ(chief.calls(), 1);
}

TEST(Coordinator, DifferentModelsAreAnErrorForAll) {
  CoordinatorServer server(test_server_options(2));
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

TEST(Coordinator, LeavingEarlyIsALossLeavingAfterTheEndIsNot) {
  CoordinatorServer server(test_server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  Heard chief(*clients[0]);
  clients[1]->report(Phase::kTraining, 4);
  clients[1].reset();
  ASSERT_TRUE(chief.wait());
  EXPECT_THAT(chief.wait()->describe(),
              AllOf(HasSubstr("worker 0 was lost"), HasSubstr("left before the run was done")));
}

TEST(Coordinator, TheServerWaitsForTheLastGoodbye) {
  CoordinatorServer server(test_server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  for (Client& client : clients) client->done();
  clients[0]->close();
  EXPECT_FALSE(server.stop(0.3)) << "worker 0 is still there";
  clients[1]->close();
}

TEST(Coordinator, ALostCoordinatorNamesTheChief) {
  auto server = std::make_unique<CoordinatorServer>(test_server_options(2));
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
  CoordinatorServer server(test_server_options(1));
  JoinOptions options = test_join_options(server.address(), -1, 1);
  options.task = "evaluator:0";
  Client evaluator = CoordinatorClient::join(options);
  Client chief = CoordinatorClient::join(test_join_options(server.address(), 0, 1));
  EXPECT_FALSE(evaluator->all_done());
  chief->done();
  EXPECT_TRUE(chief->all_done());
  await([&] { return evaluator->all_done(); });
  chief->close();
  evaluator->done();
  evaluator->close();
  EXPECT_TRUE(server.stop(30));
}

TEST(Coordinator, CloseEndsWaits) {
  CoordinatorServer server(test_server_options(2));
  std::vector<Client> clients = join_all(server.address(), 2);
  std::thread waiting([&] {
    Error error = error_of([&] { clients[1]->get("never"); });
    EXPECT_THAT(error.kind(), AnyOf(ErrorKind::kCancelled, ErrorKind::kPeerLost));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  clients[1]->close();
  waiting.join();
}

}  // namespace
}  // namespace muster::inline v0_1::control
