// A process that can only connect to a coordinator cannot affect a run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <optional>
#include <thread>
#include <tuple>

#include "muster/base/await.h"
#include "muster/base/clock.h"
#include "muster/base/error_of.h"
#include "muster/base/log.h"
#include "muster/control/coordinator_client.h"
#include "muster/control/coordinator_server.h"
#include "muster/control/internal/test_clients.h"
#include "muster/launch/certificates.h"
#include "muster/net/port.h"
#include "muster/net/socket_channel.h"
#include "tests/support/every_call.h"
#include "tests/support/raw_connection.h"

namespace muster::inline v0_1::control {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr const char* kToken = "a token that only this test knows";
const cluster::Job kJob{.id = "ours", .token = kToken};

// A group of two that meets at barriers until the test ends, as one that trains.
class RunningGroup {
 public:
  RunningGroup() : server_(options()) {
    std::vector<std::future<Client>> joining;
    for (int rank = 0; rank < 2; ++rank) {
      joining.push_back(std::async(std::launch::async, [this, rank] {
        JoinOptions join = test_join_options(server_.address(), rank, 2);
        join.job = kJob;
        return CoordinatorClient::join(join);
      }));
    }
    for (auto& client : joining) clients_.push_back(client.get());
    for (int rank = 0; rank < 2; ++rank) {
      threads_.emplace_back([this, rank] {
        // Both make the same number of rounds: the first decides when to stop.
        for (int64_t round = 0;; ++round) {
          Client& client = clients_[static_cast<size_t>(rank)];
          client->report(Phase::kTraining, round);
          if (rank == 0) client->set(fmt::format("go/{}", round), stop_ ? "no" : "yes");
          if (client->get(fmt::format("go/{}", round)) == "no") return;
          client->barrier("round");
          if (rank == 0) client->erase(fmt::format("go/{}", round - 1));
          rounds_ = round;
        }
      });
    }
  }

  // Whether it goes on unharmed.
  void expect_well() {
    const int64_t before = rounds_;
    const auto end = std::chrono::steady_clock::now() + kForever;
    while (rounds_ < before + 3 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    EXPECT_GE(rounds_, before + 3);
    EXPECT_FALSE(server_.first_failure());
  }

  ~RunningGroup() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    end_cleanly(clients_, server_);
  }

  std::string address() const { return server_.address(); }

 private:
  static ServerOptions options() {
    ServerOptions options = test_server_options(2);
    options.job = kJob;
    return options;
  }

  CoordinatorServer server_;
  std::vector<Client> clients_;
  std::vector<std::thread> threads_;
  std::atomic<int64_t> rounds_ = 0;
  std::atomic<bool> stop_ = false;
};

TEST(UnauthenticatedPeers, WhoDoesNotKnowTheTokenIsRefusedWhateverItAsks) {
  RunningGroup group;
  for (const cluster::Job& job :
       {cluster::Job{}, cluster::Job{.id = "theirs", .token = "the token of another job"},
        cluster::Job{.id = "ours", .token = std::string(kToken) + "!"}}) {
    net::SocketChannel channel(group.address(), job);
    for (const auto& [call, reply] : make_every_call(channel, {"worker:1", 7})) {
      ASSERT_FALSE(reply.ok()) << call;
      EXPECT_EQ(reply.error().kind(), ErrorKind::kInvalidArgument);
      EXPECT_THAT(reply.error().message(),
                  AllOf(HasSubstr("the job 'ours'"),
                        HasSubstr(job.id.empty() ? "without a name" : job.id)));
    }
    const Status watched = channel.watch({"worker:1", 7}, [](const net::Reply&) { FAIL(); });
    EXPECT_EQ(watched.error().kind(), ErrorKind::kInvalidArgument);
  }
  group.expect_well();
}

// A task of another job that was given this job's address ends at once, and says why.
TEST(UnauthenticatedPeers, ATaskOfAnotherJobDoesNotJoin) {
  RunningGroup group;
  JoinOptions join = test_join_options(group.address(), 1, 2);
  join.job = {.id = "theirs", .token = "the token of another job"};
  const Error error = error_of([&] { CoordinatorClient::join(join); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("'ours'"), HasSubstr("'theirs'")));
  EXPECT_THAT(error.hint(), HasSubstr("MUSTER_JOB_TOKEN"));
  group.expect_well();
}

int threads_of_this_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

TEST(UnauthenticatedPeers, FloodsOfCallsCostNoThreads) {
  RunningGroup group;
  group.expect_well();
  const int before = threads_of_this_process();
  std::vector<std::unique_ptr<net::SocketChannel>> channels;
  std::atomic<int> refused = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    channels.push_back(std::make_unique<net::SocketChannel>(group.address()));
    callers.emplace_back([&, channel = channels.back().get()] {
      for (int k = 0; k < 100; ++k) {
        if (!channel->watch({"worker:0", 7}, [](const net::Reply&) {}).ok()) ++refused;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(refused, 800);
  EXPECT_LT(threads_of_this_process(), before + 100);
  group.expect_well();
}

// What the system says of this process, in kB: "VmRSS".
int64_t status_of_this_process(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  }
  return -1;
}

int open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<int>(std::distance(begin(files), end(files)));
}

// As many connections as an unauthenticated peer likes that say nothing.
TEST(UnauthenticatedPeers, IdleConnectionsHoldUpNobody) {
  RunningGroup group;
  const int port = net::split_address(group.address()).port;
  std::vector<RawConnection> connections;
  for (int i = 0; i < 1000; ++i) connections.emplace_back(port);
  EXPECT_GT(std::ranges::count_if(connections, &RawConnection::connected), 900);
  group.expect_well();
}

// As many connections as a stranger likes that begin to prove themselves and do not end it.
TEST(UnauthenticatedPeers, UnfinishedProofsCostLittleAndHoldUpNobody) {
  RunningGroup group;
  group.expect_well();
  constexpr int kConnections = 600;
  constexpr int kMostOpen = 36;  // of a group of two
  const int port = net::split_address(group.address()).port;
  const int threads = threads_of_this_process();
  const int files = open_files();
  [[maybe_unused]] const int64_t memory = status_of_this_process("VmRSS");
  std::vector<RawConnection> connections;
  for (int i = 0; i < kConnections; ++i) {
    connections.emplace_back(port);
    connections.back().send(unfinished_proof());
  }
  group.expect_well();
  // One sanitizer keeps four words for each word of ours, the other what was freed.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(status_of_this_process("VmRSS") - memory, 150 << 10);
#endif
  EXPECT_LT(threads_of_this_process(), threads + kConnections / 2);
  await([&] { return open_files() <= files + kConnections + 2 * kMostOpen; });
  for (RawConnection& connection : connections) EXPECT_TRUE(connection.ends_within(30'000));
  connections.clear();
  // The group's own calls may have opened connections meanwhile, with a descriptor at each end.
  constexpr int kOwn = 32;
  await([&] { return open_files() <= files + kOwn; });
  group.expect_well();
}

cluster::TlsIdentity identity_of(const launch::Certificates& certificates) {
  return {.certificate = certificates.certificate,
          .key = certificates.key,
          .authority = certificates.authority,
          .server_name = {}};
}

// With certificates, only those speak to each other whose authority is the same; nobody reads
// along.
TEST(UnauthenticatedPeers, WithCertificatesOnlyTheJobsTasksAreHeard) {
  const launch::Certificates ours = launch::make_certificates({"127.0.0.1"}, 1);
  const launch::Certificates theirs = launch::make_certificates({"127.0.0.1"}, 1);
  ServerOptions options = test_server_options(2);
  options.job = {.id = "ours", .tls = identity_of(ours)};
  CoordinatorServer server(options);
  for (const bool has_certificates : {false, true}) {
    cluster::Job job{.id = "ours"};
    if (has_certificates) job.tls = identity_of(theirs);
    net::SocketChannel channel(server.address(), job);
    EXPECT_FALSE(channel.beat({.who = {"chief:0", 7}}, 2).ok());
  }
  std::vector<std::future<Client>> joining;
  for (int rank = 0; rank < 2; ++rank) {
    joining.push_back(std::async(std::launch::async, [&, rank] {
      JoinOptions join = test_join_options(server.address(), rank, 2);
      join.job = options.job;
      return CoordinatorClient::join(join);
    }));
  }
  std::vector<Client> clients;
  for (auto& client : joining) clients.push_back(client.get());
  clients[0]->set("key", "value");
  EXPECT_EQ(clients[1]->get("key"), "value");
  end_cleanly(clients, server);
}

// Tasks that wait for a refused task are told so at the limit, and in each line before.
TEST(UnauthenticatedPeers, AWaitNamesWhoWasRefusedMeanwhile) {
  const auto ours = identity_of(launch::make_certificates({"127.0.0.1"}, 1));
  cluster::TlsIdentity distrusts = ours;
  distrusts.authority = launch::make_certificates({"127.0.0.1"}, 1).authority;
  ServerOptions options = test_server_options(2);
  options.job.tls = ours;
  CoordinatorServer server(options);
  JoinOptions chief = test_join_options(server.address(), 0, 2);
  chief.job.tls = ours;
  ManualClock clock;
  chief.clock = &clock;
  chief.join_timeout = 3;
  chief.last_refusal = [&] { return server.last_refusal(); };
  std::atomic<int> tries = 0;
  chief.cancelled = [&] {
    ++tries;
    return false;
  };
  auto waiting = std::async(std::launch::async,
                            [&] { return error_of([&] { CoordinatorClient::join(chief); }); });
  JoinOptions worker = test_join_options(server.address(), 1, 2);
  worker.job.tls = distrusts;
  EXPECT_EQ(error_of([&] { CoordinatorClient::join(worker); }).kind(), ErrorKind::kInvalidArgument);
  await([&] { return tries > 0 && !server.last_refusal().empty(); });
  clock.advance(3s);
  const Error error = waiting.get();
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("still missing: worker 0"),
                                     HasSubstr("meanwhile: refused a connection"),
                                     HasSubstr("do not trust each other")));
  EXPECT_THAT(error.hint(), HasSubstr("if the missing task is the one that was refused"));
  server.stop(0);
}

// A certificate that was accepted is not to blame for a token.
TEST(UnauthenticatedPeers, AWrongTokenOverTlsIsToldAsOne) {
  const auto ours = identity_of(launch::make_certificates({"127.0.0.1"}, 1));
  ServerOptions options = test_server_options(2);
  options.job = {.id = "ours", .token = kToken, .tls = ours};
  CoordinatorServer server(options);
  JoinOptions worker = test_join_options(server.address(), 1, 2);
  testing::internal::CaptureStderr();
  for (const std::string& token : {std::string("another token of as many"), std::string()}) {
    worker.job = {.id = "ours", .token = token, .tls = ours};
    const Error error = error_of([&] { CoordinatorClient::join(worker); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(),
                HasSubstr(token.empty() ? "shows no job token" : "shows the token of another job"));
    EXPECT_THAT(error.hint(), HasSubstr("MUSTER_JOB_TOKEN"));
    // The server's thread tells of it a moment after the task has heard.
    await([&] {
      return server.last_refusal().find(token.empty() ? "no job token" : "another job") !=
             std::string::npos;
    });
  }
  server.stop(0);
  log::flush();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("it shows the token of another job"));
  EXPECT_THAT(said, Not(HasSubstr("certificate")));
  EXPECT_THAT(server.last_refusal(), HasSubstr("shows no job token"));
}

// What a task learns that joins a coordinator with these certificates. Its time passes between two
// tries alone, so that each has all it needs.
Error refused_join(const std::optional<cluster::TlsIdentity>& server_has,
                   const std::optional<cluster::TlsIdentity>& task_has) {
  ServerOptions options = test_server_options(2);
  options.job.tls = server_has;
  CoordinatorServer server(options);
  JoinOptions join = test_join_options(server.address(), 1, 2);
  ManualClock clock;
  join.clock = &clock;
  join.join_timeout = 1;
  join.job.tls = task_has;
  auto refused = std::async(std::launch::async,
                            [&] { return error_of([&] { CoordinatorClient::join(join); }); });
  await([&] {
    if (clock.sleepers() > 0) clock.advance(100ms);
    return refused.wait_for(0s) == std::future_status::ready;
  });
  return refused.get();
}

TEST(UnauthenticatedPeers, ACertificateThatIsNotAcceptedEndsJoiningAtOnce) {
  const auto ours = identity_of(launch::make_certificates({"127.0.0.1"}, 1));
  const auto theirs = identity_of(launch::make_certificates({"127.0.0.1"}, 1));
  const auto elsewhere = identity_of(launch::make_certificates({"other.example"}, 1));
  cluster::TlsIdentity wrong_authority = ours;
  wrong_authority.authority = theirs.authority;
  cluster::TlsIdentity of_another = theirs;
  of_another.authority = ours.authority;
  for (const auto& [server, task, reason] :
       {std::tuple(ours, theirs, "its certificate was not accepted"),
        std::tuple(ours, wrong_authority, "its certificate was not accepted"),
        std::tuple(elsewhere, elsewhere, "IP address mismatch"),
        std::tuple(ours, of_another, "TLS failed")}) {
    const Error error = refused_join(server, task);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), AllOf(HasSubstr("do not trust each other"), HasSubstr(reason)));
    EXPECT_THAT(error.hint(), HasSubstr("MUSTER_TLS_CA"));
  }
}

// Each of these may be put right while the others wait, by a chief that starts again.
TEST(UnauthenticatedPeers, AConnectionThatIsClosedIsNamedWhileOneWaits) {
  const auto ours = identity_of(launch::make_certificates({"127.0.0.1"}, 1));
  using Identity = std::optional<cluster::TlsIdentity>;
  for (const auto& [server, task, told] :
       {std::tuple(Identity(ours), Identity(), "does not speak TLS"),
        std::tuple(Identity(), Identity(ours), "it speaks TLS")}) {
    testing::internal::CaptureStderr();
    const Error error = refused_join(server, task);
    log::flush();
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(told));
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.message(), HasSubstr("it closes the connection and its log says why"));
  }
}

TEST(UnauthenticatedPeers, AreToldOfOncePerAddressAndReason) {
  RunningGroup group;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    // What else comes from there hides nothing.
    RawConnection browser(net::split_address(group.address()).port);
    browser.send("GET / HTTP/1.1\r\n\r\n");
    EXPECT_TRUE(browser.ends_within(30'000));
    net::SocketChannel channel(group.address());
    EXPECT_FALSE(channel.beat({.who = {"worker:1", 7}}, kAnswer).ok());
    EXPECT_FALSE(channel.fail({.who = {"worker:1", 7}, .reason = "because"}, kAnswer).ok());
  }
  log::flush();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("refused a connection from 127.0.0.1: it shows no job token"));
  EXPECT_THAT(log, HasSubstr("refused a connection from 127.0.0.1: it speaks HTTP/1"));
  EXPECT_EQ(std::ranges::count(log, '\n'), 2) << log;
}

// A message that no coordinator would take is an error here, at once; a value may have megabytes.
TEST(UnauthenticatedPeers, MessagesHaveALimit) {
  CoordinatorServer server(test_server_options(1));
  std::vector<Client> clients = join_all(server.address(), 1);
  const std::string most(15 << 20, 'x');
  clients[0]->set("key", most);
  EXPECT_EQ(clients[0]->get("key"), most);
  const Error error = error_of([&] { clients[0]->set("key", std::string(17 << 20, 'x')); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("17825"), HasSubstr("16777216 are allowed")));
  end_cleanly(clients, server);
}

// Numbers of the network that mean nothing are no reason to wait for ever.
TEST(UnauthenticatedPeers, AWaitThatIsNoNumberIsNone) {
  CoordinatorServer server(test_server_options(2));
  net::SocketChannel channel(server.address());
  const auto reply = channel.join({.who = {"worker:0", 7},
                                   .rank = 1,
                                   .world_size = 2,
                                   .wait_seconds = std::numeric_limits<double>::quiet_NaN()},
                                  kAnswer);
  ASSERT_TRUE(reply.ok()) << reply.error().message();
  EXPECT_EQ(reply.value().verdict.state, plan::Verdict::State::kWaiting);
}

TEST(UnauthenticatedPeers, AnObserverMayWatchAndBeatAndNothingElse) {
  RunningGroup group;
  net::SocketChannel channel(group.address(), kJob);
  const plan::Caller observer{"evaluator:0", 7};
  ASSERT_TRUE(channel.join({.who = observer, .rank = -1, .world_size = 2}, kAnswer).ok());
  EXPECT_EQ(channel.beat({.who = observer}, kAnswer).value().verdict.state,
            plan::Verdict::State::kReady);
  const auto refused = [&](const Result<net::Reply>& reply) {
    ASSERT_TRUE(reply.ok());
    ASSERT_EQ(reply.value().verdict.state, plan::Verdict::State::kRefused);
    EXPECT_THAT(reply.value().verdict.refusal->message(), HasSubstr("evaluator 0 is not a member"));
  };
  refused(channel.declare_model({.who = observer, .signature = {"w [1] float32"}}, kAnswer));
  refused(channel.barrier({.who = observer, .name = "round"}, kAnswer));
  for (const auto operation : {net::StoreOperation::kSet, net::StoreOperation::kErase,
                               net::StoreOperation::kWait, net::StoreOperation::kCheck}) {
    refused(channel.store({.who = observer, .operation = operation, .keys = {"go/1"}}, kAnswer));
  }
  (void)channel.fail({.who = observer, .kind = ErrorKind::kInternal, .reason = "because"}, kAnswer);
  group.expect_well();
  (void)channel.goodbye({.who = observer, .leaving = true}, kAnswer);
}

TEST(UnauthenticatedPeers, ATaskOfAnotherClusterIsToldWhichAddressesDiffer) {
  CoordinatorServer server(test_server_options(2));
  JoinOptions join = test_join_options(server.address(), 1, 2);
  join.addresses = {"127.0.0.1:1", "10.9.8.7:2222"};
  const Error error = error_of([&] { CoordinatorClient::join(join); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("worker 0 belongs to another cluster"));
}

}  // namespace
}  // namespace muster::inline v0_1::control
