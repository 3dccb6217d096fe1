#include "muster/net/internal/coordinator_wire.h"

#include <gtest/gtest.h>

namespace muster::inline v0_1::net {
namespace {

const MemberId kWho{.task = "worker:3", .incarnation = 0xfedcba9876543210u};

// Through the bytes, as the network does it.
template <typename Plain>
Plain travel(const Plain& plain) {
  auto sent = to_wire(plain);
  decltype(sent) received;
  EXPECT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  return from_wire(received);
}

TEST(CoordinatorWire, RequestsKeepEveryField) {
  JoinRequest join =
      travel(JoinRequest{.who = kWho, .rank = -1, .world_size = 4, .wait_seconds = 1.5});
  EXPECT_EQ(join.who.task, kWho.task);
  EXPECT_EQ(join.who.incarnation, kWho.incarnation);
  EXPECT_EQ(join.rank, -1);
  EXPECT_EQ(join.world_size, 4);
  EXPECT_EQ(join.wait_seconds, 1.5);
  BeatRequest beat = travel(BeatRequest{.who = kWho, .phase = 3, .step = int64_t{1} << 40});
  EXPECT_EQ(beat.phase, 3);
  EXPECT_EQ(beat.step, int64_t{1} << 40);
  EXPECT_EQ(travel(ModelRequest{.who = kWho, .signature = {"a", "b"}}).signature,
            (std::vector<std::string>{"a", "b"}));
  BarrierRequest barrier = travel(
      BarrierRequest{.who = kWho, .name = "end", .generation = 7, .count = 2, .wait_seconds = 2.5});
  EXPECT_EQ(barrier.name, "end");
  EXPECT_EQ(barrier.generation, 7);
  EXPECT_EQ(barrier.count, 2);
  EXPECT_EQ(barrier.wait_seconds, 2.5);
  FailRequest fail = travel(FailRequest{.who = kWho, .kind = 3, .reason = "loss is nan"});
  EXPECT_EQ(fail.kind, 3);
  EXPECT_EQ(fail.reason, "loss is nan");
  EXPECT_TRUE(travel(GoodbyeRequest{.who = kWho, .leaving = true}).leaving);
}

TEST(CoordinatorWire, StoreCarriesBytes) {
  const std::string bytes("\0\xff\x80z", 4);
  for (int operation = 0; operation <= static_cast<int>(StoreOperation::kWait); ++operation) {
    StoreRequest store = travel(StoreRequest{.who = kWho,
                                             .operation = static_cast<StoreOperation>(operation),
                                             .keys = {"k1", "k2"},
                                             .value = bytes,
                                             .expected = bytes + "e",
                                             .amount = -5,
                                             .wait_seconds = 0.5});
    EXPECT_EQ(static_cast<int>(store.operation), operation);
    EXPECT_EQ(store.keys.size(), 2u);
    EXPECT_EQ(store.value, bytes);
    EXPECT_EQ(store.expected, bytes + "e");
    EXPECT_EQ(store.amount, -5);
    EXPECT_EQ(store.wait_seconds, 0.5);
  }
}

TEST(CoordinatorWire, ReplyKeepsEveryField) {
  Reply reply = travel(Reply{.answer = Answer::kRefused,
                             .failure = FailureNote{"worker:1", 2, 6, "gone", 120, 2},
                             .kind = 1,
                             .message = "m",
                             .hint = "h",
                             .epoch = 9,
                             .all_done = true,
                             .missing = {{"worker:2", "host:1", 2.5}},
                             .values = {std::string("\0x", 2)},
                             .number = -3});
  EXPECT_EQ(reply.answer, Answer::kRefused);
  ASSERT_TRUE(reply.failure.has_value());
  EXPECT_EQ(reply.failure->task, "worker:1");
  EXPECT_EQ(reply.failure->rank, 2);
  EXPECT_EQ(reply.failure->kind, 6);
  EXPECT_EQ(reply.failure->reason, "gone");
  EXPECT_EQ(reply.failure->step, 120);
  EXPECT_EQ(reply.failure->phase, 2);
  EXPECT_EQ(reply.kind, 1);
  EXPECT_EQ(reply.message, "m");
  EXPECT_EQ(reply.hint, "h");
  EXPECT_EQ(reply.epoch, 9);
  EXPECT_TRUE(reply.all_done);
  ASSERT_EQ(reply.missing.size(), 1u);
  EXPECT_EQ(reply.missing[0].address, "host:1");
  EXPECT_EQ(reply.missing[0].seconds, 2.5);
  EXPECT_EQ(reply.values, std::vector<std::string>{std::string("\0x", 2)});
  EXPECT_EQ(reply.number, -3);
  EXPECT_FALSE(travel(Reply{}).failure.has_value());
}

}  // namespace
}  // namespace muster::inline v0_1::net
