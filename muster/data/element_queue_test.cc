#include "muster/data/element_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "muster/base/error_of.h"
#include "muster/data/distribute.h"
#include "muster/data/internal/test_numbers.h"
#include "muster/data/own_reader.h"
#include "muster/data/stop_scope.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using ::testing::HasSubstr;

Element element_with(int64_t value) { return {torch::tensor(value, at::kLong)}; }

TEST(ElementQueueTest, AThreadFillsItAndEachElementIsReadOnce) {
  const auto queue = std::make_shared<ElementQueue>(ElementQueueOptions{.capacity = 3});
  std::thread producer([&] {
    for (int64_t i = 0; i < 100; ++i) EXPECT_TRUE(queue->push(element_with(i)));
    queue->close();
    EXPECT_FALSE(queue->push(element_with(100)));
  });
  const auto iterator = from_queue(queue).batch(8).prefetch(2).iterator();
  int64_t next = 0;
  for (const auto& batch : rest_of(*iterator)) {
    for (const int64_t value : batch) EXPECT_EQ(value, next++);
  }
  EXPECT_EQ(next, 100);
  producer.join();
}

TEST(ElementQueueTest, ARestoredIteratorContinuesWithWhatComesNext) {
  const auto queue = std::make_shared<ElementQueue>();
  for (int64_t i = 0; i < 6; ++i) queue->push(element_with(i));
  const auto first = from_queue(queue).batch(2).iterator();
  (void)first->next();
  const auto saved = nlohmann::json::parse(first->save().dump());
  const auto other = std::make_shared<ElementQueue>();
  other->push(element_with(70));
  other->push(element_with(71));
  other->close();
  const auto second = from_queue(other).batch(2).iterator();
  ::testing::internal::CaptureStderr();
  second->restore(saved);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the elements that the queue gives next; the 2 elements before them are "
                        "not read again"));
  EXPECT_EQ(second->position().elements_total, 2);
  EXPECT_EQ(rest_of(*second), (Lists{{70, 71}}));
}

TEST(ElementQueueTest, EachWorkerReadsAllOfItsOwnQueue) {
  for (int64_t worker = 0; worker < 2; ++worker) {
    const auto queue = std::make_shared<ElementQueue>();
    for (int64_t i = 0; i < 4; ++i) queue->push(element_with(i));
    queue->close();
    auto input = distribute(from_queue(queue).batch(2),
                            {.num_input_pipelines = 2, .input_pipeline_id = worker}, /*seed=*/1);
    EXPECT_TRUE(input.by_process);
    EXPECT_EQ(rest_of(*input.iterator), (Lists{{0, 1}, {2, 3}}));
  }
}

TEST(ElementQueueTest, AnErrorOfTheProducerIsThrownAfterWhatItPushed) {
  const auto queue = std::make_shared<ElementQueue>();
  queue->push(element_with(1));
  queue->fail(std::make_exception_ptr(std::runtime_error("the camera is gone")));
  queue->close();  // keeps the error
  const auto iterator = from_queue(queue).iterator();
  EXPECT_EQ(number(*iterator->next()), 1);
  EXPECT_THAT(error_of([&] { (void)iterator->next(); }).what(), HasSubstr("the camera is gone"));
  EXPECT_FALSE(iterator->next());
}

TEST(ElementQueueTest, AnIteratorThatWaitsCanBeStoppedAndDestroyed) {
  const auto queue = std::make_shared<ElementQueue>();
  for (int64_t i = 0; i < 3; ++i) queue->push(element_with(i));
  std::atomic<bool> asked = false;
  std::unique_ptr<Iterator> iterator;
  {
    const StopScope scope([&] { return asked.load(); });
    iterator = from_queue(queue).prefetch(2).with_options({}).iterator();
  }
  EXPECT_EQ(number(*iterator->next()), 0);
  asked = true;
  // What is there, or comes before the wait is given up, is still read.
  for (int64_t i = 1; i < 3; ++i) {
    std::optional<Element> element;
    while (!element) element = iterator->next();
    EXPECT_EQ(number(*element), i);
  }
  EXPECT_FALSE(iterator->next());
  EXPECT_EQ(iterator->position().elements_total, 3);
  queue->push(element_with(3));
  std::optional<Element> element;
  while (!element) element = iterator->next();
  EXPECT_EQ(number(*element), 3) << "it can be read on";
  // It waits again: its destructor ends that.
  EXPECT_FALSE(iterator->next());
}

TEST(ElementQueueTest, AReaderOfYourOwnLearnsThatNobodyWaits) {
  std::atomic<bool> waits = false, learned = false;
  const auto wait = [&]() -> std::optional<Element> {
    waits = true;
    while (!reading_is_over()) std::this_thread::yield();
    learned = true;
    throw std::runtime_error("nobody waits");
  };
  {
    const StopScope scope([&] { return waits.load(); });
    const auto iterator =
        from_reader([&] { return OwnReader{.next = wait}; }).prefetch(1).iterator();
    EXPECT_FALSE(iterator->next());
    EXPECT_FALSE(learned);
  }
  EXPECT_TRUE(learned);
  EXPECT_FALSE(reading_is_over());
}

TEST(ElementQueueTest, WaitsEndByClosingAndByTime) {
  ElementQueue full({.capacity = 1});
  full.push(element_with(1));
  bool pushed = true;
  std::thread pusher([&] { pushed = full.push(element_with(2)); });
  ElementQueue empty;
  std::optional<Element> popped = element_with(0);
  std::thread popper([&] { popped = empty.pop(); });
  // Whether a thread waits cannot be seen from outside. The time lets both begin to wait; the test
  // also passes if one of them comes later.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  full.close();
  empty.close();
  pusher.join();
  popper.join();
  EXPECT_FALSE(pushed);
  EXPECT_FALSE(popped);
  EXPECT_EQ(number(*full.pop()), 1);

  ElementQueue brief({.capacity = 1, .push_timeout = Seconds(0.01), .pop_timeout = Seconds(0.01)});
  EXPECT_EQ(error_of([&] { (void)brief.pop(); }).kind(), ErrorKind::kTimeout);
  brief.push(element_with(1));
  EXPECT_EQ(error_of([&] { brief.push(element_with(2)); }).kind(), ErrorKind::kTimeout);
  EXPECT_EQ(error_of([] { ElementQueue({.capacity = 0}); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([] { ElementQueue({.pop_timeout = Seconds(0)}); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([] { from_queue(nullptr); }).kind(), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace muster::inline v0_1::data
