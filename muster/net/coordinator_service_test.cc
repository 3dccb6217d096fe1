#include "muster/net/coordinator_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error.h"
#include "muster/base/free_ports.h"
#include "muster/net/internal/testing.h"
#include "muster/net/port.h"
#include "muster/net/socket_channel.h"

namespace muster::inline v0_1::net {
namespace {

using testing::HasSubstr;

// Answers with its request, so that a test sees the request arrive.
class Echo : public CoordinatorHandler {
 public:
  Reply join(const JoinRequest& request, const Call&) override {
    return {.epoch = request.world_size};
  }
  Reply beat(const BeatRequest& request) override { return {.number = request.step}; }
  Reply declare_model(const ModelRequest& request) override {
    return {.values = request.signature};
  }
  Reply barrier(const BarrierRequest&, const Call& call) override {
    ++begun_barriers;
    while (!call.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++cancelled_barriers;
    return {};
  }
  Reply store(const StoreRequest& request, const Call&) override {
    return {.values = {request.value}};
  }
  Reply fail(const FailRequest& request) override {
    throw Error(ErrorKind::kNonFinite, request.reason, "hint");
  }
  Reply goodbye(const GoodbyeRequest&) override { throw std::runtime_error("plain"); }
  void watch(const WatchRequest& request, const Call& call,
             const std::function<bool(const Reply&)>& send) override {
    send({.values = {"hello " + request.who.task}});
    while (!call.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++ended_watches;
  }

  std::atomic<int> begun_barriers = 0;
  std::atomic<int> cancelled_barriers = 0;
  std::atomic<int> ended_watches = 0;
};

class CoordinatorServiceTest : public testing::Test {
 protected:
  std::string address() const { return join_address("127.0.0.1", service.port()); }
  Echo echo;
  CoordinatorService service{echo, "127.0.0.1:0"};
};

TEST_F(CoordinatorServiceTest, CallsArriveAndAnswersReturn) {
  SocketChannel channel(address());
  EXPECT_EQ(channel.join({.world_size = 3}, kLong).value().epoch, 3);
  EXPECT_EQ(channel.beat({.step = 17}, kLong).value().number, 17);
  EXPECT_EQ(channel.declare_model({.signature = {"w"}}, kLong).value().values,
            std::vector<std::string>{"w"});
  const std::string bytes("\0\1\xff", 3);
  EXPECT_EQ(channel.store({.value = bytes}, kLong).value().values, std::vector<std::string>{bytes});
}

TEST_F(CoordinatorServiceTest, ErrorsOfTheHandlerBecomeRefusals) {
  SocketChannel channel(address());
  Reply reply = channel.fail({.reason = "because"}, kLong).value();
  ASSERT_EQ(reply.verdict.state, plan::Verdict::State::kRefused);
  EXPECT_EQ(reply.verdict.refusal->kind(), ErrorKind::kNonFinite);
  EXPECT_EQ(reply.verdict.refusal->message(), "because");
  EXPECT_EQ(reply.verdict.refusal->hint(), "hint");
  reply = channel.goodbye({}, kLong).value();
  ASSERT_EQ(reply.verdict.state, plan::Verdict::State::kRefused);
  EXPECT_THAT(reply.verdict.refusal->message(), HasSubstr("plain"));
}

TEST_F(CoordinatorServiceTest, CallsHaveTimeLimits) {
  SocketChannel channel(address());
  // On a busy machine the time may be over before a call arrives.
  for (int call = 0; call < 100 && echo.begun_barriers == 0; ++call) {
    Result<Reply> reply = channel.barrier({}, 0.1);
    ASSERT_FALSE(reply.ok());
    EXPECT_EQ(reply.error().kind(), ErrorKind::kTimeout);
  }
  ASSERT_GT(echo.begun_barriers, 0);
  await([&] { return echo.cancelled_barriers == echo.begun_barriers; });
}

TEST_F(CoordinatorServiceTest, WatchPushesAndBothSidesSeeItsEnd) {
  SocketChannel channel(address());
  std::atomic<bool> greeted = false;
  std::thread closer([&] {
    await([&] { return greeted.load(); });
    channel.close();
  });
  Status status = channel.watch({.task = "worker:1"}, [&](const Reply& reply) {
    EXPECT_EQ(reply.values, std::vector<std::string>{"hello worker:1"});
    greeted = true;
  });
  closer.join();
  EXPECT_EQ(status.error().kind(), ErrorKind::kCancelled);
  await([&] { return echo.ended_watches == 1; });
  EXPECT_EQ(channel.beat({}, kLong).error().kind(), ErrorKind::kCancelled)
      << "a closed channel stays closed";
}

TEST_F(CoordinatorServiceTest, StoppingEndsCallsInProgress) {
  SocketChannel channel(address());
  std::atomic<bool> greeted = false;
  std::thread stopper([&] {
    await([&] { return greeted.load(); });
    service.stop();
  });
  EXPECT_FALSE(channel.watch({}, [&](const Reply&) { greeted = true; }).ok());
  stopper.join();
  Result<Reply> reply = channel.beat({}, kLong);
  ASSERT_FALSE(reply.ok());
  EXPECT_THAT(reply.error().message(), HasSubstr(address()));
}

TEST_F(CoordinatorServiceTest, PortInUseIsAnErrorNamingTheAddress) {
  cluster::Job job;
  job.insecure = true;
  for (std::string host : {"127.0.0.1", "localhost", "0.0.0.0"}) {
    std::string taken = join_address(host, service.port());
    try {
      CoordinatorService second(echo, taken, job);
      ADD_FAILURE() << "two servers at " << taken;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.message(), HasSubstr(taken));
      EXPECT_THAT(error.hint(), HasSubstr("another process"));
    }
  }
}

TEST_F(CoordinatorServiceTest, PortIsFreeAgainAfterStop) {
  int port = service.port();
  service.stop();
  CoordinatorService again(echo, join_address("127.0.0.1", port));
  EXPECT_EQ(again.port(), port);
}

TEST_F(CoordinatorServiceTest, ANameThatIsNoLoopbackBindsAllInterfaces) {
  cluster::Job job;
  job.token = "a token of sixteen";
  CoordinatorService open(echo, "some-name-of-a-balancer:0", job);
  SocketChannel channel(join_address("127.0.0.1", open.port()), job);
  EXPECT_EQ(channel.beat({.step = 4}, kLong).value().number, 4);
}

TEST(SocketChannel, NobodyThereIsUnavailable) {
  SocketChannel channel(join_address("127.0.0.1", free_port()));
  Result<Reply> reply = channel.beat({}, kLong);
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind(), ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace muster::inline v0_1::net
