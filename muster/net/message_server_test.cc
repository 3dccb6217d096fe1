#include "muster/net/message_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/base/free_ports.h"
#include "muster/base/log.h"
#include "muster/net/internal/acceptor.h"
#include "muster/net/internal/frame.h"
#include "muster/net/internal/local_socket.h"
#include "muster/net/internal/testing.h"
#include "tests/support/raw_connection.h"
#include "tests/support/tls_identity.h"

namespace muster::inline v0_1::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

cluster::Job job_of(const std::string& id, const std::string& token) {
  cluster::Job job;
  job.id = id;
  job.token = token;
  return job;
}
const cluster::Job kJob = job_of("resnet", "a token of sixteen");

// Says what it is told, until the other side goes.
void echo(MessageSocket& socket) {
  while (auto head = socket.receive(kLong)) {
    std::vector<std::byte> payload(static_cast<size_t>(head->payload_bytes));
    socket.receive_payload(payload);
    const Bytes piece = payload;
    socket.send(head->text, {&piece, 1});
  }
}

MessageServerOptions here(cluster::Job job = kJob) {
  return {.address = "127.0.0.1:0", .job = std::move(job), .task = "ps:0"};
}

ConnectOptions to(const MessageServer& server, cluster::Job job = kJob) {
  return {.address = server.address(),
          .job = std::move(job),
          .task = "worker:1",
          .timeout_seconds = kLong};
}

// Whether messages go there and back.
void expect_talk(MessageSocket& socket) {
  const std::string text(1'000'000, 'x');
  const Bytes piece = bytes_of(text);
  auto sends = std::async(std::launch::async, [&] { socket.send("put", {&piece, 1}); });
  const auto answer = socket.receive(kLong);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, "put");
  ASSERT_EQ(answer->payload_bytes, static_cast<int64_t>(text.size()));
  std::string back(text.size(), '\0');
  socket.receive_payload(std::as_writable_bytes(std::span(back)));
  EXPECT_TRUE(back == text);
  sends.get();
}

// Whom it refused last. Its threads learn that a moment after the other side does.
std::string refusal_of(const MessageServer& server) {
  for (int i = 0; i < kSoon && server.last_refusal().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return server.last_refusal();
}

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

TEST(MessageServer, AnotherTokenIsRefusedOnBothSides) {
  const struct {
    cluster::Job server, client;
    const char* why;
  } cases[] = {
      {kJob, job_of("bert", "another token, as long"), "it shows the token of another job"},
      {kJob, job_of("bert", ""), "it shows no job token"},
      {job_of("resnet", ""), job_of("bert", "a token of sixteen"), "the token of another job"},
      {job_of("resnet", ""), job_of("bert", ""), "it belongs to another job"},
  };
  for (const auto& [its, own, why] : cases) {
    std::atomic<int> served = 0;
    std::string refused;
    const std::string log = log_of([&, &its = its, &own = own] {
      MessageServer server(here(its), [&](MessageSocket&) { ++served; });
      for (int i = 0; i < 2; ++i) {
        refused = message_of([&] { connect_messages(to(server, own)); });
        EXPECT_THAT(refused, HasSubstr(server.address()));
      }
      EXPECT_THAT(refusal_of(server), HasSubstr("refused a connection from "));
    });
    EXPECT_THAT(refused,
                AllOf(HasSubstr("the job 'resnet'"), HasSubstr("the job 'bert'"), HasSubstr(why)));
    EXPECT_EQ(served, 0);
    EXPECT_THAT(log, HasSubstr(why));
    EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
  }
}

TEST(MessageServer, WithoutTokensTheNameIsEnough) {
  for (const char* name : {"resnet", ""}) {
    MessageServer server(here(job_of("resnet", "")), echo);
    expect_talk(*connect_messages(to(server, job_of(name, ""))));
  }
}

TEST(MessageServer, WhereOthersCanConnectSomethingKeepsThemOut) {
  MessageServerOptions options = here(job_of("resnet", ""));
  options.address = "0.0.0.0:0";
  EXPECT_THAT(message_of([&] { MessageServer(options, echo); }),
              AllOf(HasSubstr("0.0.0.0:0"), HasSubstr("nothing keeps strangers out")));
  EXPECT_THAT(message_of([] { connect_messages({.address = "192.0.2.1:80", .task = "worker:0"}); }),
              HasSubstr("192.0.2.1:80"));
  options.job.insecure = true;
  EXPECT_GT(MessageServer(options, echo).port(), 0);
}

TEST(MessageServer, CertificatesProveAndEncrypt) {
  for (const bool same_host : {true, false}) {
    cluster::Job job = kJob;
    job.tls = tls_identity_for("127.0.0.1");
    MessageServer server(here(job), echo);
    ConnectOptions options = to(server, job);
    options.same_host_shortcut = same_host;
    expect_talk(*connect_messages(options));
  }
  // A name that is not the host's.
  cluster::Job job = job_of("", "");
  job.tls = tls_identity_for("ps.example", "ps.example");
  MessageServer server(here(job), echo);
  expect_talk(*connect_messages(to(server, job)));
  job.tls->server_name = "";
  EXPECT_THAT(message_of([&] { connect_messages(to(server, job)); }),
              AllOf(HasSubstr(server.address()), HasSubstr("certificate was not accepted")));
}

TEST(MessageServer, CertificatesOfAnotherAuthorityAreRefused) {
  cluster::Job job = kJob, other = kJob;
  job.tls = tls_identity_for("127.0.0.1");
  other.tls = tls_identity_for("127.0.0.1");
  MessageServer server(here(job), echo);
  EXPECT_THAT(message_of([&] { connect_messages(to(server, other)); }),
              HasSubstr("certificate was not accepted"));
  // One that trusts the server, and is not trusted.
  cluster::Job half = other;
  half.tls->authority = job.tls->authority;
  EXPECT_THAT(message_of([&] { connect_messages(to(server, half)); }), HasSubstr(server.address()));
  EXPECT_THAT(refusal_of(server), HasSubstr("refused a connection from"));
  cluster::Job broken = job;
  broken.tls->key = other.tls->key;
  EXPECT_THAT(message_of([&] { MessageServer(here(broken), echo); }), HasSubstr("cannot be used"));
}

TEST(MessageServer, CertificatesOnOneSideAloneLeadNowhere) {
  cluster::Job with = kJob;
  with.tls = tls_identity_for("127.0.0.1");
  for (const bool server_has_them : {true, false}) {
    MessageServer server(here(server_has_them ? with : kJob), echo);
    ConnectOptions options = to(server, server_has_them ? kJob : with);
    options.timeout_seconds = 0.1;
    const Error error = error_of([&] { connect_messages(options); });
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
    EXPECT_THAT(error.hint(), HasSubstr("MUSTER_TLS_CERT"));
    EXPECT_THAT(refusal_of(server), HasSubstr("TLS"));
  }
}

// Each is closed and named once, and a task among them is served all the while.
TEST(MessageServer, StrangersAreRefusedAndDoNotDisturb) {
  const std::string log = log_of([] {
    MessageServerOptions options = here();
    options.unproved_seconds = 0.3;
    MessageServer server(options, echo);
    const auto task = connect_messages(to(server));
    const auto frame = [](uint32_t head, int64_t payload) {
      const FrameHeader header = FrameHeader::of(head, payload);
      return std::string(reinterpret_cast<const char*>(&header), sizeof header);
    };
    const struct {
      const char* from;
      std::string says;
    } strangers[] = {{"127.0.0.2", "GET / HTTP/1.1\r\n\r\n"},
                     {"127.0.0.3", std::string(300, '\x07')},
                     {"127.0.0.4", std::string(kHttp2Opening)},
                     {"127.0.0.5", frame(100'000, 0)},
                     {"127.0.0.6", frame(5, 0) + "hello"},
                     {"127.0.0.7", frame(8, 9) + "hello 1"},
                     {"127.0.0.8", frame(50, 0)},
                     {"127.0.0.9", ""},
                     {"127.0.0.10", frame(2000, 0) + std::string(100'000, 'x')}};
    for (const auto& [from, says] : strangers) {
      RawConnection stranger(server.port(), from);
      stranger.send(says);
      EXPECT_TRUE(stranger.ends_within(kSoon)) << from;
      expect_talk(*task);
    }
    expect_talk(*connect_messages(to(server)));
  });
  for (const char* said :
       {"127.0.0.2: it speaks HTTP/1", "127.0.0.3: it sent what no task of a job sends",
        "127.0.0.4: it sent what no task", "127.0.0.5: it sent what no task",
        "127.0.0.6: it sent what no task", "127.0.0.8: it did not show within 0.3 s",
        "127.0.0.9: it did not show within 0.3 s", "127.0.0.10: "})
    EXPECT_THAT(log, HasSubstr(said));
}

TEST(MessageServer, ManyStrangersAreBounded) {
  const std::string log = log_of([] {
    MessageServerOptions options = here();
    options.max_unproved_connections = 4;
    MessageServer server(options, echo);
    const auto task = connect_messages(to(server));
    std::vector<RawConnection> flood;
    for (int i = 0; i < 100; ++i) {
      flood.emplace_back(server.port(), "127.0.0.2");
      // Half of them begin as tasks do, and have a thread.
      if (i % 2 == 0) flood.back().send(kFrameMagic);
    }
    for (size_t i = 0; i < 96; ++i) EXPECT_TRUE(flood[i].ends_within(kSoon)) << i;
    expect_talk(*task);
    ConnectOptions beside = to(server);
    beside.same_host_shortcut = false;
    expect_talk(*connect_messages(beside));
  });
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
}

TEST(MessageServer, APortThatIsTakenIsNamed) {
  MessageServer server(here(), echo);
  MessageServerOptions same = here();
  same.address = server.address();
  const Error error = error_of([&] { MessageServer(same, echo); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr(server.address()));
}

TEST(MessageServer, WhoConnectsWaitsForTheServer) {
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

TEST(MessageServer, WhoConnectsGivesUp) {
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

// A port that somebody holds without saying a word.
TEST(MessageServer, WhoConnectsGivesUpOnWhoIsSilent) {
  Listener listener("127.0.0.1", 0, "here", "");
  ConnectOptions options{.address = fmt::format("127.0.0.1:{}", listener.port()),
                         .job = kJob,
                         .task = "worker:1",
                         .timeout_seconds = 0.1};
  EXPECT_THAT(error_of([&] { connect_messages(options); }).message(), HasSubstr("does not answer"));
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
  RawConnection stranger(server->port());
  both_wait.get_future().wait();
  server->stop();
  server->stop();
  EXPECT_EQ(error_of([&] { silent->receive(kLong); }).kind(), ErrorKind::kPeerLost);
  EXPECT_TRUE(stranger.ends_within(kSoon));
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
  ConnectOptions hasty = to(server);
  hasty.timeout_seconds = 0.5;
  const Error error = error_of([&] { connect_messages(hasty); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), HasSubstr("it has 1 connections, which is all it takes"));
  EXPECT_THAT(refusal_of(server), HasSubstr("all it takes"));
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

// What the server sees of a task that gets a signal in the middle of a payload.
Error error_after(int signal, bool same_host) {
  Child child(same_host);
  std::promise<Error> seen;
  MessageServerOptions options = here();
  options.idle_timeout_seconds = 0.2;
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

TEST(LocalSocket, AnotherUserIsRefused) {
  // A peer of another user is a process that gave up root; nobody else can make one.
  if (::geteuid() != 0) GTEST_SKIP() << "only root can start a process of another user";
  constexpr uid_t kNobody = 65534;
  MessageServer server(here(), echo);
  const std::string name = local_name(server.address(), kJob);
  EXPECT_TRUE(connect_local(name).is_open());
  EXPECT_FALSE(connect_local(local_name(server.address(), job_of("", ""))).is_open());
  EXPECT_FALSE(listen_local(name).is_open());
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(2);
    // The server is root's: this side refuses it too.
    if (connect_local(name).is_open()) ::_exit(3);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(refusal_of(server), HasSubstr("another user"));
}

}  // namespace
}  // namespace muster::inline v0_1::net
