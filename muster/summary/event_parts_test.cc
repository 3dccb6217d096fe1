#include "muster/summary/internal/event_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/await.h"
#include "muster/files/testing/memory_store.h"
#include "muster/formats/event.h"
#include "muster/formats/tfrecord.h"
#include "muster/summary/event_writer.h"

namespace muster::inline v0_1::summary {
namespace {

// As TensorBoard reads a directory: on from the name it read last, and never back.
class ForwardReader {
 public:
  ForwardReader(FileSystem& files, std::string directory)
      : files_(files), directory_(std::move(directory)) {}

  // The steps of what is new.
  std::vector<int64_t> read() {
    std::vector<int64_t> steps;
    for (const std::string& path : formats::list_event_files(files_, directory_).value()) {
      if (path <= last_) continue;
      last_ = path;
      const formats::EventFile file = formats::read_events(files_, path).value();
      EXPECT_FALSE(file.partial_tail || file.corruption) << path;
      EXPECT_EQ(file.events.at(0).file_version, formats::kEventFileVersion) << path;
      for (size_t i = 1; i < file.events.size(); ++i) steps.push_back(file.events[i].step);
    }
    return steps;
  }

 private:
  FileSystem& files_;
  const std::string directory_;
  std::string last_;
};

// A reader that only moves forward sees every event once, in order, whenever it looks; also with
// two writers in one directory.
TEST(EventParts, AReaderThatGoesForwardMissesNothing) {
  MemoryStore store;
  ManualClock clock({.wall_seconds = 1'700'000'000});
  ForwardReader reader(store, "mem://b/run");
  std::multiset<int64_t> seen;
  const auto look = [&] {
    for (const int64_t step : reader.read()) seen.insert(step);
  };
  {
    EventWriter a("mem://b/run", store, clock), b("mem://b/run", store, clock);
    for (int64_t step = 0; step < 60; ++step) {
      EventWriter& writer = step % 3 == 0 ? b : a;
      writer.add_scalar("loss", 1, step);
      writer.flush();
      // Bounded: a thread next to this one sends it, in memory.
      for (int i = 0; i < 20000 && store.objects().size() <= static_cast<size_t>(step); ++i)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (step % 7 == 0) look();
      if (step % 5 == 0) clock.advance(std::chrono::seconds(1));
    }
  }
  look();
  EXPECT_EQ(seen.size(), 60u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 60u) << "none is there twice";
}

TEST(EventParts, AFlushIsOneRequest) {
  MemoryStore store;
  ManualClock clock;
  EventWriter writer("mem://b/run", store, clock);
  const auto flush = [&](int64_t step) {
    writer.add_scalar("loss", 1, step);
    writer.flush();
    await([&] { return store.objects().size() == static_cast<size_t>(step); });
  };
  flush(1);
  store.set_plan({.writes_only = false});
  flush(2);
  flush(3);
  EXPECT_EQ(store.requests(), 2);
}

TEST(EventParts, NobodyWaitsForTheNetwork) {
  MemoryStore store;
  std::atomic<bool> open{false};
  store.on_request([&](int64_t, const std::string&) {
    // A network that hangs, until the test lets it go; bounded, should the test fail.
    for (int i = 0; i < 10000 && !open; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EventWriter writer("mem://b/run", store, system_clock());
  for (int64_t step = 0; step < 100; ++step) {
    writer.add_scalar("loss", 1, step);
    writer.flush();
  }
  EXPECT_TRUE(store.objects().empty()) << "all of it still waits";
  open = true;
  writer.close();
  ForwardReader reader(store, "mem://b/run");
  EXPECT_EQ(reader.read().size(), 100u);
  EXPECT_LE(store.objects().size(), 3u) << "what waits is sent together";
}

// A file that failed is sent again under its name; nothing is lost and nothing is there twice.
TEST(EventParts, WhatCannotBeSentIsTriedAgain) {
  for (int64_t failures = 1; failures <= 3; ++failures) {
    MemoryStore store;
    store.set_plan({.fail_from = 1});
    store.on_request([&](int64_t number, const std::string&) {
      if (number == 1 + failures) store.set_plan({});
    });
    internal::EventParts parts("mem://b/run", store, system_clock(),
                               {.first_delay_seconds = 0.001});
    for (int64_t step = 0; step < 3; ++step) {
      std::string record;
      formats::append_tfrecord(
          record, bytes_of(formats::encode_event({.step = step, .values = {{"a", 1.0f}}}).value()));
      parts.add(record, 1);
    }
    parts.close();
    ForwardReader reader(store, "mem://b/run");
    EXPECT_EQ(reader.read(), (std::vector<int64_t>{0, 1, 2})) << failures;
  }
}

TEST(EventParts, AStoreThatStaysAwayCostsEventsAndNoTraining) {
  MemoryStore store;
  store.set_plan({.fail_from = 0});
  internal::EventParts parts(
      "mem://b/run", store, system_clock(),
      {.most_bytes = 1000, .first_delay_seconds = 0.001, .end_seconds = 0.05});
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) parts.add(std::string(100, 'x'), 1);
  parts.close();
  parts.add("late", 1);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, ::testing::HasSubstr(
                        "100 summary events for 'mem://b/run' could not be written and are lost"));
  EXPECT_TRUE(store.objects().empty());
  EXPECT_EQ(parts.path(), "");
}

}  // namespace
}  // namespace muster::inline v0_1::summary
