#include "muster/checkpoint/store_claim.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/files/testing/memory_store.h"

namespace muster::inline v0_1 {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr const char* kClaimed = "mem://bucket/run";
constexpr auto kNoBeat = std::chrono::hours(24);  // a beat that no test sees

// What a program elsewhere writes, of which nobody here can tell whether it lives.
std::string lease_text(int beats) {
  return fmt::format(R"({{"holder":"process 7 on far","id":"1","space":"","process":7,"beats":{},)"
                     R"("pinned":[],"note":""}})",
                     beats);
}

TEST(StoreClaim, OneProgramAtATime) {
  MemoryStore store;
  {
    const StoreClaim first(kClaimed, store, {}, {.lease = {.beat = kNoBeat}});
    first.check();
    const Error error = error_of([&] {
      // The first does not beat here, so it could be dead; but the whole of that wait is not a
      // test.
      int looks = 0;
      const StoreClaim second(kClaimed, store, [&] { return ++looks > 3; },
                              {.join_timeout = 0ms, .look_every = 1ms});
    });
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_THAT(error.message(), HasSubstr("to leave model_dir 'mem://bucket/run'"));
  }
  const StoreClaim next(kClaimed, store, {}, {.lease = {.beat = kNoBeat}});
}

// One that beats is alive: who comes second is told so without waiting for a minute.
TEST(StoreClaim, OneThatBeatsIsNamed) {
  MemoryStore store;
  int beats = 0;
  const auto beat = [&] {
    store.write_atomically("mem://bucket/run/writer.lease", lease_text(++beats)).value();
    return false;
  };
  beat();
  const Error error = error_of([&] {
    const StoreClaim second(kClaimed, store, beat, {.join_timeout = 5ms, .look_every = 1ms});
  });
  EXPECT_EQ(exit_code(error.kind()), 2) << "no scheduler starts it again";
  EXPECT_EQ(error.message(), "model_dir 'mem://bucket/run' is in use by process 7 on far");
  EXPECT_THAT(error.hint(), HasSubstr("its own model_dir"));
}

TEST(StoreClaim, OneWhoseProcessIsGoneHoldsNothing) {
  MemoryStore store;
  // A process of this machine that has ended: its lease says where process numbers mean the same.
  {
    Lease lease(kClaimed, "writer", {.holder = "dead"}, {.fs = &store, .beat = kNoBeat});
    lease.leave_behind();
  }
  const std::string path = "mem://bucket/run/writer.lease";
  std::string text = store.read_file(path).value();
  const std::string own = fmt::format("\"process\":{}", getpid());
  ASSERT_NE(text.find(own), std::string::npos);
  // No process has a number this high.
  text.replace(text.find(own), own.size(), "\"process\":1999999999");
  store.write_atomically(path, text).value();
  const StoreClaim claim(kClaimed, store, {}, {.lease = {.beat = kNoBeat}});
  claim.check();
}

TEST(StoreClaim, TheOneWhoLostItIsTold) {
  MemoryStore store;
  const StoreClaim claim(kClaimed, store, {}, {.lease = {.beat = 1ms}});
  store.write_atomically("mem://bucket/run/writer.lease", lease_text(1)).value();
  // Bounded: it looks again at each beat.
  for (int i = 0; i < 10000; ++i) {
    try {
      claim.check();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_THAT(error.message(), HasSubstr("was taken by another program"));
      return;
    }
    std::this_thread::sleep_for(1ms);
  }
  FAIL() << "it was not told";
}

// A process that cannot read who holds the right does not take it.
TEST(StoreClaim, IsNotTakenWhereItCannotBeRead) {
  MemoryStore store;
  const std::string path = "mem://bucket/run/writer.lease";
  store.write_atomically(path, lease_text(1)).value();
  store.set_plan({.fail_at = 0, .writes_only = false});
  const Error error = error_of([&] { const StoreClaim second(kClaimed, store); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_EQ(store.read_file(path).value(), lease_text(1));
}

// A process that slept until it was taken for dead looks before it saves, and not at its next beat.
TEST(StoreClaim, ItsLossIsSeenBeforeASave) {
  MemoryStore store;
  const StoreClaim claim(kClaimed, store, {}, {.lease = {.beat = kNoBeat}});
  claim.check();
  store.write_atomically("mem://bucket/run/writer.lease", lease_text(1)).value();
  EXPECT_THAT(error_of([&] { claim.check(); }).message(),
              HasSubstr("was taken by another program"));
}

// Another may have taken the right while the store was away: who cannot read whose it is does not
// write over it, and does not remove it.
TEST(StoreClaim, IsNotWrittenWhereItCannotBeRead) {
  MemoryStore store;
  {
    Lease lease(kClaimed, "writer", {.holder = "me"}, {.fs = &store, .beat = kNoBeat});
    store.write_atomically("mem://bucket/run/writer.lease", lease_text(1)).value();
    store.set_plan({.fail_at = 0, .writes_only = false});
    const Error error = error_of([&] { lease.change([](LeaseContent&) {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.message(), HasSubstr("the owner of the lease is unknown"));
    store.set_plan({.fail_at = 0, .writes_only = false});
  }
  EXPECT_EQ(store.read_file("mem://bucket/run/writer.lease").value(), lease_text(1));
}

}  // namespace
}  // namespace muster::inline v0_1
