#include "muster/net/message_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/free_ports.h"
#include "muster/net/internal/listener.h"
#include "muster/net/internal/message_testing.h"
#include "tests/support/raw_connection.h"

namespace muster::inline v0_1::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MessageServer, BothSidesKnowEachOther) {
  for (const bool same_host : {true, false}) {
    std::promise<std::pair<std::string, std::string>> seen;
    MessageServerOptions options = here();
    options.same_host_shortcut = same_host;
    MessageServer server(options, [&](MessageSocket& socket) {
      seen.set_value({socket.peer(), socket.peer_task()});
      echo(socket);
    });
    EXPECT_EQ(server.address(), fmt::format("127.0.0.1:{}", server.port()));
    const auto socket = connect_messages(to(server));
    EXPECT_EQ(socket->peer(), fmt::format("ps 0 ({})", server.address()));
    EXPECT_EQ(socket->peer_task(), "ps:0");
    const auto [peer, task] = seen.get_future().get();
    EXPECT_EQ(peer, same_host ? "worker 1 (this machine)" : "worker 1 (127.0.0.1)");
    EXPECT_EQ(task, "worker:1");
    expect_talk(*socket);
    EXPECT_EQ(server.last_refusal(), "");
  }
}

// Where only one side knows of the shortcut, or the address is spelled otherwise.
TEST(MessageServer, WithoutTheShortcutThereIsTcp) {
  MessageServer server(here(), echo);
  ConnectOptions options = to(server);
  options.address = fmt::format("localhost:{}", server.port());
  expect_talk(*connect_messages(options));
  options = to(server);
  options.same_host_shortcut = false;
  expect_talk(*connect_messages(options));
}

TEST(MessageServer, APortThatIsTakenIsNamed) {
  MessageServer server(here(), echo);
  MessageServerOptions same = here();
  same.address = server.address();
  const Error error = error_of([&] { MessageServer(same, echo); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr(server.address()));
}

TEST(MessageServer, AClientWaitsForTheServer) {
  MessageServerOptions options = here();
  options.address = fmt::format("127.0.0.1:{}", free_port());
  auto socket = std::async(std::launch::async, [&] {
    return connect_messages(
        {.address = options.address, .job = kJob, .task = "worker:1", .timeout_seconds = kLong});
  });
  EXPECT_EQ(socket.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  MessageServer server(options, echo);
  expect_talk(*socket.get());
}

TEST(MessageServer, AClientGivesUp) {
  ConnectOptions options{.address = fmt::format("127.0.0.1:{}", free_port()),
                         .job = kJob,
                         .task = "worker:1",
                         .timeout_seconds = 0.05};
  const Error late = error_of([&] { connect_messages(options); });
  EXPECT_EQ(late.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(late.message(), AllOf(HasSubstr("worker 1"), HasSubstr(options.address),
                                    HasSubstr("0.05 s"), HasSubstr("refused")));
  options.timeout_seconds = kLong;
  int asked = 0;
  options.cancelled = [&] { return ++asked > 3; };
  EXPECT_EQ(error_of([&] { connect_messages(options); }).kind(), ErrorKind::kCancelled);
}

// A port that a process holds without answering.
TEST(MessageServer, AClientGivesUpOnASilentServer) {
  Listener listener("127.0.0.1", 0, "here", "");
  ConnectOptions options{
      .address = fmt::format("127.0.0.1:{}", listener.port()), .job = kJob, .task = "worker:1"};
  const std::string reason = "does not answer";
  EXPECT_THAT(error_within(0.1, reason, options).message(), HasSubstr(reason));
  options.timeout_seconds = kLong;
  int asked = 0;
  options.cancelled = [&] { return ++asked > 3; };
  EXPECT_EQ(error_of([&] { connect_messages(options); }).kind(), ErrorKind::kCancelled);
}

TEST(MessageServer, StopEndsAllThatIsUnderWay) {
  std::promise<void> both_wait;
  std::atomic<int> serving = 0;
  auto server = std::make_unique<MessageServer>(here(), [&](MessageSocket& socket) {
    if (++serving == 2) both_wait.set_value();
    if (socket.peer_task() == "worker:0") {
      socket.receive(kLong);
    } else {
      const std::vector<std::byte> much(30'000'000);
      const Bytes piece = much;
      socket.send("much", {&piece, 1});
    }
    ADD_FAILURE() << "it was not waited for";
  });
  ConnectOptions options = to(*server);
  options.task = "worker:0";
  const auto silent = connect_messages(options);
  options.task = "worker:1";
  const auto deaf = connect_messages(options);
  RawConnection intruder(server->port());
  both_wait.get_future().wait();
  server->stop();
  server->stop();
  EXPECT_EQ(error_of([&] { silent->receive(kLong); }).kind(), ErrorKind::kPeerLost);
  EXPECT_TRUE(intruder.ends_within(kSoon));
  EXPECT_FALSE(RawConnection(server->port()).connected());
  // The port is free again.
  MessageServerOptions again = here();
  again.address = server->address();
  MessageServer second(again, echo);
  expect_talk(*connect_messages(to(second)));
}

TEST(MessageServer, AConnectionEndsWithItsFunction) {
  for (const bool throws : {true, false}) {
    const std::string log = log_of([&] {
      MessageServer server(here(), [&](MessageSocket& socket) {
        socket.receive(kLong);
        if (throws) throw invalid_argument("no such variable: w7");
      });
      const auto socket = connect_messages(to(server));
      socket->send("get w7");
      EXPECT_EQ(error_of([&] { socket->receive(kLong); }).kind(), ErrorKind::kPeerLost);
    });
    if (throws) {
      EXPECT_THAT(log, AllOf(HasSubstr("worker 1"), HasSubstr("no such variable: w7")));
    } else {
      EXPECT_EQ(log, "");
    }
  }
}

TEST(MessageServer, MoreConnectionsThanItTakesWait) {
  MessageServerOptions options = here();
  options.max_connections = 1;
  MessageServer server(options, echo);
  auto first = connect_messages(to(server));
  const std::string reason = "it has 1 connections, its maximum";
  const Error error = error_within(0.5, reason, to(server));
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr(reason));
  EXPECT_THAT(refusal_of(server), HasSubstr("its maximum"));
  expect_talk(*first);
  first.reset();
  expect_talk(*connect_messages(to(server)));
}

TEST(MessageServer, ManyTasksComeAndGo) {
  std::atomic<int> served = 0;
  MessageServer server(here(), [&](MessageSocket& socket) {
    ++served;
    echo(socket);
  });
  std::vector<std::thread> tasks;
  for (int i = 0; i < 8; ++i) {
    tasks.emplace_back([&, i] {
      for (int turn = 0; turn < 5; ++turn) {
        ConnectOptions options = to(server);
        options.same_host_shortcut = i % 2 == 0;
        const auto socket = connect_messages(options);
        socket->send("hello");
        EXPECT_EQ(socket->receive(kLong)->text, "hello");
      }
    });
  }
  for (std::thread& task : tasks) task.join();
  EXPECT_EQ(served, 40);
}

// A task in a process of its own, which begins a payload that it cannot finish.
class Child {
 public:
  explicit Child(bool same_host) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    FileDescriptor reads(ends[0]);
    write_ = FileDescriptor(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    int port = 0;
    if (::read(reads.get(), &port, sizeof port) != sizeof port) ::_exit(2);
    try {
      const auto socket = connect_messages({.address = fmt::format("127.0.0.1:{}", port),
                                            .job = kJob,
                                            .task = "worker:1",
                                            .timeout_seconds = kLong,
                                            .same_host_shortcut = same_host});
      const std::vector<std::byte> much(100'000'000);
      const Bytes piece = much;
      socket->send("put", {&piece, 1});
    } catch (...) {
      ::_exit(3);
    }
    ::_exit(0);
  }
  ~Child() {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void connect_to(const MessageServer& server) {
    const int port = server.port();
    EXPECT_EQ(::write(write_.get(), &port, sizeof port), static_cast<ssize_t>(sizeof port));
  }
  void signal(int number) { ::kill(pid_, number); }

 private:
  FileDescriptor write_;
  pid_t pid_ = -1;
};

// The server's error for a task that gets a signal in the middle of a payload.
Error error_after(int signal, bool same_host) {
  Child child(same_host);
  std::promise<Error> seen;
  MessageServerOptions options = here();
  // The end of a killed process is seen; only a stopped one is silent.
  if (signal == SIGSTOP) options.idle_timeout_seconds = 0.2;
  MessageServer server(options, [&](MessageSocket& socket) {
    const auto head = socket.receive(kLong);
    std::vector<std::byte> payload(static_cast<size_t>(head->payload_bytes));
    child.signal(signal);
    seen.set_value(error_of([&] { socket.receive_payload(payload); }));
  });
  child.connect_to(server);
  return seen.get_future().get();
}

TEST(MessageServer, ATaskThatIsKilledInTheMiddleOfAPayloadIsLost) {
  for (const bool same_host : {true, false}) {
    const Error error = error_after(SIGKILL, same_host);
    EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("lost worker 1"));
  }
}

TEST(MessageServer, ATaskThatIsStoppedIsGivenUpAfterTheIdleTime) {
  for (const bool same_host : {true, false}) {
    const Error error = error_after(SIGSTOP, same_host);
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
    EXPECT_THAT(error.message(), HasSubstr("worker 1"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::net
