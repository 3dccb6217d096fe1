// Which peers a message server refuses, and what they are told.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "muster/base/error_of.h"
#include "muster/net/internal/acceptor.h"
#include "muster/net/internal/frame.h"
#include "muster/net/internal/local_socket.h"
#include "muster/net/internal/message_testing.h"
#include "tests/support/raw_connection.h"
#include "tests/support/tls_identity.h"

namespace muster::inline v0_1::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MessageServerSecurity, AnotherTokenIsRefusedOnBothSides) {
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

TEST(MessageServerSecurity, WithoutTokensTheNameIsEnough) {
  for (const char* name : {"resnet", ""}) {
    MessageServer server(here(job_of("resnet", "")), echo);
    expect_talk(*connect_messages(to(server, job_of(name, ""))));
  }
}

TEST(MessageServerSecurity, WhereOthersCanConnectSomethingKeepsThemOut) {
  MessageServerOptions options = here(job_of("resnet", ""));
  options.address = "0.0.0.0:0";
  EXPECT_THAT(message_of([&] { MessageServer(options, echo); }),
              AllOf(HasSubstr("0.0.0.0:0"), HasSubstr("peers are not authenticated")));
  EXPECT_THAT(message_of([] { connect_messages({.address = "192.0.2.1:80", .task = "worker:0"}); }),
              HasSubstr("192.0.2.1:80"));
  options.job.insecure = true;
  EXPECT_GT(MessageServer(options, echo).port(), 0);
}

TEST(MessageServerSecurity, CertificatesProveAndEncrypt) {
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

TEST(MessageServerSecurity, CertificatesOfAnotherAuthorityAreRefused) {
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

TEST(MessageServerSecurity, CertificatesOnOneSideAloneLeadNowhere) {
  cluster::Job with = kJob;
  with.tls = tls_identity_for("127.0.0.1");
  for (const bool server_has_them : {true, false}) {
    MessageServer server(here(server_has_them ? with : kJob), echo);
    ConnectOptions options = to(server, server_has_them ? kJob : with);
    options.timeout_seconds = 0.1;
    // On a busy machine the time may be over before the server has seen how this one speaks.
    for (int i = 0; i < 100 && server.last_refusal().empty(); ++i) {
      const Error error = error_of([&] { connect_messages(options); });
      EXPECT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
      EXPECT_THAT(error.hint(), HasSubstr("MUSTER_TLS_CERT"));
    }
    EXPECT_THAT(server.last_refusal(), HasSubstr("TLS"));
  }
}

// Each is closed and named once, and a task among them is served all the while.
TEST(MessageServerSecurity, UnauthenticatedPeersAreRefusedAndDoNotDisturb) {
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
    } intruders[] = {{"127.0.0.2", "GET / HTTP/1.1\r\n\r\n"},
                     {"127.0.0.3", std::string(300, '\x07')},
                     {"127.0.0.4", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
                     {"127.0.0.5", frame(100'000, 0)},
                     {"127.0.0.6", frame(5, 0) + "hello"},
                     {"127.0.0.7", frame(7, 9) + "hello 1"},
                     {"127.0.0.8", frame(50, 0)},
                     {"127.0.0.9", ""},
                     {"127.0.0.10", frame(2000, 0) + std::string(100'000, 'x')}};
    for (const auto& [from, says] : intruders) {
      RawConnection intruder(server.port(), from);
      intruder.send(says);
      EXPECT_TRUE(intruder.ends_within(kSoon)) << from;
      expect_talk(*task);
    }
    expect_talk(*connect_messages(to(server)));
  });
  for (const char* said :
       {"127.0.0.2: it speaks HTTP/1", "127.0.0.3: its message is not from a task",
        "127.0.0.4: it speaks HTTP/2", "127.0.0.5: its message is not from a task",
        "127.0.0.6: its message is not from a task", "127.0.0.7: its message is not from a task",
        "127.0.0.8: it did not show within 0.3 s", "127.0.0.9: it did not show within 0.3 s",
        "127.0.0.10: "})
    EXPECT_THAT(log, HasSubstr(said));
}

TEST(MessageServerSecurity, ManyUnauthenticatedPeersAreBounded) {
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

TEST(MessageServerSecurity, AnotherUserIsRefused) {
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
