#include "muster/plan/closure_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "muster/base/error_of.h"

namespace muster::inline v0_1::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Outcome = ClosureQueue::Outcome;

ClosureQueue queue_of(int workers, ClosureQueue::Options options = {}) {
  options.workers = workers;
  ClosureQueue queue(options, 0);
  for (int w = 0; w < workers; ++w) queue.join(w, 0);
  return queue;
}

std::map<int64_t, Outcome> ended(ClosureQueue& queue) {
  std::map<int64_t, Outcome> all;
  for (const auto& each : queue.take_ended()) {
    EXPECT_TRUE(all.emplace(each.call, each.outcome).second) << each.call << " ended twice";
    EXPECT_EQ(each.error.has_value(), each.outcome != Outcome::kDone);
  }
  return all;
}

using Endings = std::map<int64_t, Outcome>;

TEST(ClosureQueue, GivesCallsInTheirOrderOneToAWorker) {
  ClosureQueue queue = queue_of(2);
  for (int i = 0; i < 3; ++i) queue.schedule("f");
  const auto first = queue.next(0), second = queue.next(1);
  EXPECT_EQ(first->call, 1);
  EXPECT_EQ(second->call, 2);
  EXPECT_EQ(queue.next(0)->ticket, first->ticket);  // its answer was lost: the same again
  EXPECT_TRUE(queue.finish(0, first->ticket));
  EXPECT_EQ(queue.next(0)->call, 3);
  EXPECT_EQ(queue.unfinished(), 2);
  EXPECT_EQ(ended(queue), (Endings{{1, Outcome::kDone}}));
}

TEST(ClosureQueue, ACallOfALostWorkerIsTheNextToBeginElsewhere) {
  ClosureQueue queue = queue_of(2);
  queue.schedule("f");
  queue.schedule("f");
  const auto lost = queue.next(0);
  queue.leave(0, 1);
  const auto again = queue.next(1);
  EXPECT_EQ(again->call, lost->call);
  EXPECT_EQ(again->attempt, 2);
  // A later answer of the lost worker does not count, neither a result nor an error.
  EXPECT_FALSE(queue.finish(0, lost->ticket));
  EXPECT_FALSE(queue.fail(0, lost->ticket, internal_error("too late")));
  EXPECT_FALSE(queue.failure());
  EXPECT_TRUE(queue.finish(1, again->ticket));
  EXPECT_EQ(ended(queue), (Endings{{1, Outcome::kDone}}));
}

TEST(ClosureQueue, AProcessThatComesAgainHasNothingOfTheOneBefore) {
  ClosureQueue queue = queue_of(1);
  queue.schedule("f");
  const auto before = queue.next(0);
  queue.join(0, 1);
  EXPECT_FALSE(queue.finish(0, before->ticket));
  const auto again = queue.next(0);
  EXPECT_EQ(again->call, before->call);
  EXPECT_NE(again->ticket, before->ticket);
}

TEST(ClosureQueue, AnAbsentWorkerIsGivenNothing) {
  ClosureQueue queue({.workers = 1}, 0);
  queue.schedule("f");
  EXPECT_FALSE(queue.next(0));
  EXPECT_EQ(queue.without_workers(7), 7);
  queue.join(0, 8);
  EXPECT_FALSE(queue.without_workers(9));
  EXPECT_TRUE(queue.next(0));
  queue.leave(0, 10);
  EXPECT_EQ(queue.without_workers(12), 2);
}

TEST(ClosureQueue, AFailureCancelsWhatHasNotBegunAndIsReportedOnce) {
  ClosureQueue queue = queue_of(2);
  for (int i = 0; i < 4; ++i) queue.schedule("f");
  const auto a = queue.next(0), b = queue.next(1);
  EXPECT_TRUE(queue.fail(0, a->ticket, invalid_argument("first")));
  EXPECT_EQ(ended(queue),
            (Endings{{1, Outcome::kFailed}, {3, Outcome::kCancelled}, {4, Outcome::kCancelled}}));
  // The other call continues to its end; a second failure is not the first.
  EXPECT_TRUE(queue.fail(1, b->ticket, invalid_argument("second")));
  EXPECT_EQ(queue.unfinished(), 0);
  EXPECT_EQ(queue.take_failure()->message(), "first");
  EXPECT_FALSE(queue.take_failure());
  queue.schedule("f");
  EXPECT_EQ(queue.next(0)->call, 5);
}

TEST(ClosureQueue, ACallThatIsLostAfterAFailureDoesNotBeginAgain) {
  ClosureQueue queue = queue_of(2);
  queue.schedule("f");
  queue.schedule("f");
  const auto a = queue.next(0);
  (void)queue.next(1);
  queue.fail(0, a->ticket, invalid_argument("first"));
  (void)queue.take_failure();
  queue.schedule("f");
  queue.leave(1, 1);
  EXPECT_EQ(queue.next(0)->call, 3);
  EXPECT_EQ(ended(queue), (Endings{{1, Outcome::kFailed}, {2, Outcome::kCancelled}}));
}

TEST(ClosureQueue, ACallThatTakesItsWorkersDownFails) {
  ClosureQueue queue = queue_of(1, {.max_attempts = 3});
  queue.schedule("greedy");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(queue.next(0)->attempt, attempt);
    queue.join(0, attempt);
  }
  EXPECT_FALSE(queue.next(0));
  EXPECT_EQ(ended(queue), (Endings{{1, Outcome::kFailed}}));
  EXPECT_THAT(queue.failure()->message(), HasSubstr("\"greedy\" was begun 3 times"));
  EXPECT_EQ(queue.failure()->kind(), ErrorKind::kUnavailable);
}

TEST(ClosureQueue, IsFullOfWhatHasNotEnded) {
  ClosureQueue queue = queue_of(1, {.capacity = 2});
  queue.schedule("f");
  queue.schedule("f");
  const auto first = queue.next(0);
  EXPECT_TRUE(queue.full());
  queue.finish(0, first->ticket);
  EXPECT_FALSE(queue.full());
}

TEST(ClosureQueue, RefusesWhatCannotBe) {
  EXPECT_THAT(message_of([] { ClosureQueue({.workers = 1, .capacity = 0}, 0); }),
              HasSubstr("a queue of 0 calls"));
  ClosureQueue queue = queue_of(2);
  EXPECT_THAT(message_of([&] { queue.join(2, 0); }), HasSubstr("no worker of rank 2 among 2"));
}

// --- workers whose messages are late, drop out or overtake each other; workers that die ---

// A process of a worker: it asks, works for a while, and answers, in messages that take their time.
class SimulatedRun {
 public:
  // `some_fail`: one call in ten throws, and the program takes the error and continues.
  explicit SimulatedRun(uint64_t seed, bool some_fail = false)
      : random_(seed),
        some_fail_(some_fail),
        workers_(1 + pick(4)),
        queue_({.workers = workers_, .max_attempts = 1000}, 0) {}

  // Returns how the calls have ended.
  Endings run(int calls) {
    for (int w = 0; w < workers_; ++w) begin(w);
    int64_t scheduled = 0;
    for (now_ = 1; now_ < kLongest; ++now_) {
      told_ += queue_.take_failure().has_value() ? 1 : 0;
      if (scheduled < calls && pick(3) == 0) {
        queue_.schedule("f");
        ++scheduled;
      }
      disturb();
      deliver();
      check();
      if (scheduled == calls && queue_.unfinished() == 0) return endings_;
    }
    ADD_FAILURE() << "the run has no end";
    return endings_;
  }

  // How often a result counted, and how often work was done for nothing.
  const std::map<int64_t, int>& counted() const { return counted_; }
  // Failures that the program received.
  int told() const { return told_; }

 private:
  static constexpr int64_t kLongest = 100000;
  // The messages under way, and when they arrive: requests to the queue, and its answers.
  struct Message {
    int worker = 0;
    int process = 0;
    bool asks = false;  // else it contains the result of `ticket`
    int64_t ticket = 0;
    int64_t call = 0;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  void send(Message message) { messages_.emplace(now_ + 1 + pick(20), message); }

  void begin(int worker) {
    ++process_[worker];
    queue_.join(worker, static_cast<double>(now_));
    send({.worker = worker, .process = process_[worker], .asks = true});
  }

  void disturb() {
    if (pick(40) != 0) return;
    const int worker = pick(workers_);
    if (pick(2) == 0) {
      // It dies, or the network reports so: its sent messages may still arrive.
      queue_.leave(worker, static_cast<double>(now_));
      returns_.emplace(now_ + 1 + pick(50), worker);
    } else {
      // Its process was replaced before the loss was noticed.
      begin(worker);
    }
  }

  void deliver() {
    for (auto it = returns_.begin(); it != returns_.end() && it->first <= now_;
         it = returns_.erase(it))
      begin(it->second);
    std::vector<Message> arrived;
    for (auto it = messages_.begin(); it != messages_.end() && it->first <= now_;
         it = messages_.erase(it))
      arrived.push_back(it->second);
    std::ranges::shuffle(arrived, random_);
    for (const Message& message : arrived) receive(message);
  }

  void receive(const Message& message) {
    const bool newest = message.process == process_[message.worker];
    if (!message.asks) {
      // A result arrives from any sender, also from a process that is gone.
      const bool fails = some_fail_ && message.call % 10 == 0;
      if (fails ? queue_.fail(message.worker, message.ticket, internal_error("it fails"))
                : queue_.finish(message.worker, message.ticket))
        ++counted_[message.call];
    }
    // One process at a time asks, as one connection does; the answer is on its way for a while.
    if (!newest || !queue_.present(message.worker)) return;
    if (const auto next = queue_.next(message.worker)) {
      send({.worker = message.worker,
            .process = message.process,
            .ticket = next->ticket,
            .call = next->call});
    } else {
      send({.worker = message.worker, .process = message.process, .asks = true});
    }
  }

  void check() {
    for (const auto& [call, outcome] : ended(queue_)) {
      EXPECT_TRUE(endings_.emplace(call, outcome).second) << call << " ended twice";
    }
  }

  std::mt19937_64 random_;
  const bool some_fail_;
  const int workers_;
  ClosureQueue queue_;
  int64_t now_ = 0;
  std::map<int, int> process_;
  std::multimap<int64_t, Message> messages_;
  std::multimap<int64_t, int> returns_;
  Endings endings_;
  std::map<int64_t, int> counted_;
  int told_ = 0;
};

TEST(ClosureQueue, EveryCallHasExactlyOneResultWhateverIsLost) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    constexpr int kCalls = 30;
    SimulatedRun run(seed);
    const Endings endings = run.run(kCalls);
    ASSERT_EQ(endings.size(), static_cast<size_t>(kCalls));
    for (const auto& [call, outcome] : endings) {
      ASSERT_EQ(outcome, Outcome::kDone);
      ASSERT_EQ(run.counted().at(call), 1);
    }
  }
}

TEST(ClosureQueue, EveryCallEndsOnceWhereSomeFail) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    constexpr int kCalls = 40;
    SimulatedRun run(seed, /*some_fail=*/true);
    const Endings endings = run.run(kCalls);
    ASSERT_EQ(endings.size(), static_cast<size_t>(kCalls));
    int failed = 0;
    for (const auto& [call, outcome] : endings) {
      if (outcome == Outcome::kFailed) ++failed;
      // It counted once, unless it was cancelled before it ended.
      ASSERT_EQ(run.counted().contains(call), outcome != Outcome::kCancelled) << call;
      ASSERT_EQ(outcome == Outcome::kFailed, run.counted().contains(call) && call % 10 == 0);
    }
    ASSERT_LE(run.told(), failed);
  }
}

}  // namespace
}  // namespace muster::inline v0_1::plan
