#include "muster/net/message_fields.h"

#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/net/coordinator_messages.h"

namespace muster::inline v0_1::net {
namespace {

using State = plan::Verdict::State;

const plan::Caller kWho{.task = "worker:3", .incarnation = 0xfedcba9876543210u};

// Through the bytes, as the network does it.
template <typename Plain>
Plain travel(const Plain& plain) {
  return decode<Plain>(encode(plain));
}

TEST(CoordinatorFields, RequestsKeepEveryField) {
  JoinRequest join =
      travel(JoinRequest{.who = kWho, .rank = -1, .world_size = 4, .wait_seconds = 1.5});
  EXPECT_EQ(join.who.task, kWho.task);
  EXPECT_EQ(join.who.incarnation, kWho.incarnation);
  EXPECT_EQ(join.rank, -1);
  EXPECT_EQ(join.world_size, 4);
  EXPECT_EQ(join.wait_seconds, 1.5);
  BeatRequest beat =
      travel(BeatRequest{.who = kWho, .phase = plan::Phase::kSaving, .step = int64_t{1} << 40});
  EXPECT_EQ(beat.phase, plan::Phase::kSaving);
  EXPECT_EQ(beat.step, int64_t{1} << 40);
  EXPECT_EQ(travel(ModelRequest{.who = kWho, .signature = {"a", "b"}}).signature,
            (std::vector<std::string>{"a", "b"}));
  BarrierRequest barrier =
      travel(BarrierRequest{.who = kWho, .name = "end", .generation = 7, .wait_seconds = 2.5});
  EXPECT_EQ(barrier.name, "end");
  EXPECT_EQ(barrier.generation, 7);
  EXPECT_EQ(barrier.wait_seconds, 2.5);
  FailRequest fail =
      travel(FailRequest{.who = kWho, .kind = ErrorKind::kNonFinite, .reason = "loss is nan"});
  EXPECT_EQ(fail.kind, ErrorKind::kNonFinite);
  EXPECT_EQ(fail.reason, "loss is nan");
  EXPECT_TRUE(travel(GoodbyeRequest{.who = kWho, .leaving = true}).leaving);
  EXPECT_TRUE(travel(GoodbyeRequest{.who = kWho, .for_good = true}).for_good);
}

TEST(CoordinatorFields, StoreCarriesBytes) {
  const std::string bytes("\0\xff\x80z", 4);
  for (int operation = 0; operation <= static_cast<int>(StoreOperation::kWait); ++operation) {
    StoreRequest store = travel(StoreRequest{.who = kWho,
                                             .operation = static_cast<StoreOperation>(operation),
                                             .keys = {"k1", "k2"},
                                             .value = bytes,
                                             .amount = -5,
                                             .wait_seconds = 0.5});
    EXPECT_EQ(static_cast<int>(store.operation), operation);
    EXPECT_EQ(store.keys.size(), 2u);
    EXPECT_EQ(store.value, bytes);
    EXPECT_EQ(store.amount, -5);
    EXPECT_EQ(store.wait_seconds, 0.5);
  }
}

TEST(CoordinatorFields, RepliesKeepEveryField) {
  const Reply plain =
      travel(Reply{.epoch = 9, .all_done = true, .values = {std::string("\0x", 2)}, .number = -3});
  EXPECT_EQ(plain.verdict.state, State::kReady);
  EXPECT_FALSE(plain.verdict.failure || plain.verdict.refusal);
  EXPECT_EQ(plain.epoch, 9);
  EXPECT_TRUE(plain.all_done);
  EXPECT_EQ(plain.values, std::vector<std::string>{std::string("\0x", 2)});
  EXPECT_EQ(plain.number, -3);

  const plan::Failure failure{"worker:1", 2,   ErrorKind::kPeerLost,
                              "gone",     120, plan::Phase::kTraining};
  const Reply failed = travel(Reply{.verdict = {.state = State::kFailed, .failure = failure}});
  EXPECT_EQ(failed.verdict.state, State::kFailed);
  EXPECT_EQ(failed.verdict.failure, failure);

  const Reply refused = travel(Reply{
      .verdict = {.state = State::kRefused, .refusal = Error(ErrorKind::kNotFound, "m", "h")}});
  ASSERT_TRUE(refused.verdict.refusal);
  EXPECT_EQ(refused.verdict.refusal->kind(), ErrorKind::kNotFound);
  EXPECT_EQ(refused.verdict.refusal->message(), "m");
  EXPECT_EQ(refused.verdict.refusal->hint(), "h");

  const Reply waiting =
      travel(Reply{.verdict = {.state = State::kWaiting,
                               .missing = {{"worker:2", "host:1", 2.5, "at step 3"}}}});
  ASSERT_EQ(waiting.verdict.missing.size(), 1u);
  EXPECT_EQ(waiting.verdict.missing[0].task, "worker:2");
  EXPECT_EQ(waiting.verdict.missing[0].address, "host:1");
  EXPECT_EQ(waiting.verdict.missing[0].seconds, 2.5);
  EXPECT_EQ(waiting.verdict.missing[0].where, "at step 3");
}

// Bytes that are cut, too long, or contain an undefined number are Corrupt, and take no memory for
// a length that they only announce.
TEST(MessageFields, BytesThatEncodeDoesNotWriteAreCorrupt) {
  const Reply reply{.verdict = {.state = State::kRefused,
                                .refusal = Error(ErrorKind::kNotFound, "message", "hint"),
                                .missing = {{"worker:2", "host:1", 2.5, "at step 3"}}},
                    .values = {"value"}};
  const std::string whole = encode(reply);
  const auto kind_of = [](const std::string& text) {
    return error_of([&] { decode<Reply>(text); }).kind();
  };
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(kind_of(whole.substr(0, bytes)), ErrorKind::kCorrupt) << bytes;
  EXPECT_EQ(kind_of(whole + '\0'), ErrorKind::kCorrupt);
  std::string odd = whole;
  odd[0] = '\7';  // the state
  EXPECT_EQ(kind_of(odd), ErrorKind::kCorrupt);
  std::string many = encode(ModelRequest{.who = kWho, .signature = {"a"}});
  many.replace(many.size() - 9, 4, "\xff\xff\xff\xff");  // the count in front of "a"
  EXPECT_EQ(error_of([&] { decode<ModelRequest>(many); }).kind(), ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1::net
