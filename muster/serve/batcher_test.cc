// Requests that come together share a batch; the clock is moved by hand.
#include "muster/serve/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "muster/base/await.h"
#include "muster/base/error_of.h"
#include "muster/serve/internal/test_model.h"

namespace muster::inline v0_1::serve {
namespace {

using internal::floats;
using internal::TestModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

class BatcherTest : public ::testing::Test {
 protected:
  std::unique_ptr<Batcher> batcher(const BatcherOptions& options) {
    return std::make_unique<Batcher>(
        [this](const std::string& signature, const Arrays& inputs) {
          return model_.run(signature, inputs);
        },
        options, metrics_, clock_);
  }

  std::future<Arrays> ask(Batcher& batcher, std::vector<float> values,
                          const std::string& signature = "serving_default") {
    const auto rows = static_cast<int64_t>(values.size()) / 2;
    return std::async(std::launch::async, [&batcher, values, rows, signature, this] {
      return batcher.answer(signature, {{"x", floats({rows, 2}, values)}}, rows, true,
                            clock_.now() + 1h);
    });
  }

  // Waits until `requests` requests wait for their answer and all runners for more.
  void wait_for(int64_t requests, int sleepers) {
    await([&] { return metrics_.waiting.load() == requests && clock_.sleepers() == sleepers; });
  }

  TestModel model_;
  ServingMetrics metrics_;
  ManualClock clock_;
};

TEST_F(BatcherTest, RequestsThatComeTogetherAreOneBatchAndEachGetsItsRows) {
  const auto batches = batcher({.max_rows = 8, .max_wait = 5ms});
  auto first = ask(*batches, {1, 2});
  wait_for(1, 2);
  auto second = ask(*batches, {3, 4, 5, 6});
  wait_for(2, 3);
  clock_.advance(5ms);
  EXPECT_EQ(first.get().at("y"), floats({1, 2}, {2, 4}));
  EXPECT_EQ(second.get().at("y"), floats({2, 2}, {6, 8, 10, 12}));
  EXPECT_THAT(model_.batches, ElementsAre(3));
}

TEST_F(BatcherTest, AFullBatchDoesNotWait) {
  const auto batches = batcher({.max_rows = 2, .max_wait = 1h});
  auto first = ask(*batches, {1, 2});
  wait_for(1, 2);
  auto second = ask(*batches, {3, 4});
  EXPECT_EQ(first.get().at("y"), floats({1, 2}, {2, 4}));
  EXPECT_EQ(second.get().at("y"), floats({1, 2}, {6, 8}));
  // More than a batch holds is a batch of its own.
  EXPECT_EQ(ask(*batches, {1, 2, 3, 4, 5, 6}).get().at("y"), floats({3, 2}, {2, 4, 6, 8, 10, 12}));
  EXPECT_THAT(model_.batches, ElementsAre(2, 3));
}

TEST_F(BatcherTest, ABatchThatTheNextDoesNotFitInDoesNotWait) {
  const auto batches = batcher({.max_rows = 3, .max_wait = 1h});
  auto first = ask(*batches, {1, 2, 3, 4});
  wait_for(1, 2);
  auto second = ask(*batches, {5, 6, 7, 8});
  EXPECT_EQ(first.get().at("y"), floats({2, 2}, {2, 4, 6, 8}));
  auto third = ask(*batches, {9, 10});
  EXPECT_EQ(second.get().at("y"), floats({2, 2}, {10, 12, 14, 16}));
  EXPECT_EQ(third.get().at("y"), floats({1, 2}, {18, 20}));
  EXPECT_THAT(model_.batches, ElementsAre(2, 3));
}

TEST_F(BatcherTest, OtherSignaturesAreOtherBatches) {
  const auto batches = batcher({.max_rows = 8, .max_wait = 5ms});
  auto first = ask(*batches, {1, 2});
  wait_for(1, 2);
  auto second = ask(*batches, {3, 4}, "classes");
  auto third = ask(*batches, {5, 6});
  wait_for(3, 4);
  clock_.advance(5ms);
  EXPECT_EQ(first.get().at("y"), floats({1, 2}, {2, 4}));
  EXPECT_EQ(third.get().at("y"), floats({1, 2}, {10, 12}));
  EXPECT_EQ(second.get().at("scores"), floats({1, 2}, {6, 8}));
  EXPECT_THAT(model_.batches, ElementsAre(2, 1));
}

TEST_F(BatcherTest, OnlyTheRequestThatIsToBlameFails) {
  const auto batches = batcher({.max_rows = 8, .max_wait = 5ms});
  auto good = ask(*batches, {1, 2});
  wait_for(1, 2);
  auto bad = ask(*batches, {666, 4});
  wait_for(2, 3);
  clock_.advance(5ms);
  EXPECT_EQ(good.get().at("y"), floats({1, 2}, {2, 4}));
  EXPECT_EQ(error_of([&] { bad.get(); }).message(), "x is 666");
}

TEST_F(BatcherTest, TooManyRequestsAreRefused) {
  const auto batches = batcher({.max_rows = 8, .max_wait = 5ms, .max_requests = 1});
  auto first = ask(*batches, {1, 2});
  wait_for(1, 2);
  auto second = ask(*batches, {3, 4});
  const Error error = error_of([&] { second.get(); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("1 requests wait already"));
  EXPECT_EQ(error_of([&] { batches->check_room(); }).message(), error.message());
  clock_.advance(5ms);
  EXPECT_EQ(first.get().at("y"), floats({1, 2}, {2, 4}));
}

TEST_F(BatcherTest, ADeadlineEndsTheWaitWhateverTheModelDoes) {
  std::promise<void> began;
  std::promise<void> go;
  const auto gone = go.get_future().share();
  {
    Batcher slow(
        [&](const std::string& signature, const Arrays& inputs) {
          if (model_.calls.load() == 0) began.set_value();
          gone.wait();
          return model_.run(signature, inputs);
        },
        {.max_rows = 1}, metrics_, clock_);
    const auto ask_soon = [&] {
      return std::async(std::launch::async, [&] {
        return slow.answer("serving_default", {{"x", floats({1, 2}, {1, 2})}}, 1, true,
                           clock_.now() + 10ms);
      });
    };
    auto computed = ask_soon();
    began.get_future().wait();  // a deadline that has passed before would take it from the queue
    auto queued = ask_soon();
    wait_for(2, 2);
    clock_.advance(10ms);
    EXPECT_EQ(error_of([&] { computed.get(); }).kind(), ErrorKind::kTimeout);
    EXPECT_EQ(error_of([&] { queued.get(); }).kind(), ErrorKind::kTimeout);
    go.set_value();
  }
  EXPECT_EQ(model_.calls.load(), 1) << "what nobody waits for is not computed";
}

TEST_F(BatcherTest, ManyThreadsGetTheirOwnRows) {
  Batcher batches([this](const std::string& signature,
                         const Arrays& inputs) { return model_.run(signature, inputs); },
                  {.max_rows = 16, .runners = 2}, metrics_);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (int turn = 0; turn < 200; ++turn) {
        const auto value = static_cast<float>(thread * 1000 + turn);
        const Arrays outputs =
            batches.answer("serving_default", {{"x", floats({1, 2}, {value, -value})}}, 1, true,
                           system_clock().now() + 60s);
        if (outputs.at("y") != floats({1, 2}, {2 * value, -2 * value})) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(metrics_.waiting.load(), 0);
}

TEST_F(BatcherTest, OptionsThatCannotBeAreNamed) {
  EXPECT_THAT(error_of([&] { batcher({.max_rows = 0}); }).message(), HasSubstr("max_rows is 0"));
}

}  // namespace
}  // namespace muster::inline v0_1::serve
