#include "muster/summary/event_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <thread>

#include "muster/base/fault_file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::summary {
namespace {

using formats::Event;
using formats::EventFile;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::vector<Event> events_in(const std::string& directory) {
  std::vector<Event> events;
  for (const std::string& path :
       formats::list_event_files(local_file_system(), directory).value()) {
    EventFile file = formats::read_events(local_file_system(), path).value();
    EXPECT_FALSE(file.partial_tail);
    EXPECT_FALSE(file.corruption.has_value());
    for (Event& event : file.events) events.push_back(std::move(event));
  }
  return events;
}

TEST(EventWriter, WritesWhatReadersExpect) {
  TempDirectory temp;
  ManualClock clock({.wall_seconds = 1'700'000'000});
  const std::string directory = temp / "model/eval";
  {
    EventWriter writer(directory, local_file_system(), clock, {.suffix = ".v1"});
    EXPECT_FALSE(local_file_system().exists(directory).value())
        << "made before anything was written";
    writer.add_session_log(formats::SessionStatus::kStart, 0);
    clock.advance(std::chrono::seconds(1));
    writer.add_scalar("loss", 0.25, 100);
    writer.add_scalars({{"a", 1}, {"b", 2}}, 101);
    writer.add_text("checkpoint_path", "model.ckpt-100", 100);
    const std::vector<float> values = {-1, 0, 2, 2};
    writer.add_histogram("h", values, 102);
    EXPECT_EQ(writer.path(), "");
    writer.flush();
    EXPECT_THAT(std::string(base_name(writer.path())),
                MatchesRegex("events\\.out\\.tfevents\\.1700000001\\..+\\.[0-9]+\\.[0-9]+\\.v1"));
  }
  const std::vector<Event> events = events_in(directory);
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_EQ(events[1].session_log->status, formats::SessionStatus::kStart);
  EXPECT_EQ(events[2].wall_time, 1'700'000'001);
  EXPECT_EQ(events[2].step, 100);
  EXPECT_EQ(std::get<float>(events[2].values.at(0).value), 0.25f);
  EXPECT_EQ(events[3].values.at(1).tag, "b");
  EXPECT_EQ(std::get<std::string>(events[4].values.at(0).value), "model.ckpt-100");
  EXPECT_EQ(std::get<formats::Histogram>(events[5].values.at(0).value).count, 4);
}

TEST(EventWriter, NothingAddedWritesNothing) {
  TempDirectory temp;
  ManualClock clock;
  EventWriter writer(temp.path(), local_file_system(), clock);
  writer.add_scalars({}, 1);
  writer.flush();
  writer.close();
  writer.close();
  EXPECT_TRUE(local_file_system().list_directory(temp.path()).value().empty());
  EXPECT_THROW(writer.add_scalar("late", 1, 1), Error);
}

TEST(EventWriter, WritesWhenFullAndWhenTimeIsUp) {
  TempDirectory temp;
  ManualClock clock;
  EventWriter writer(temp.path(), local_file_system(), clock,
                     {.buffer_bytes = 1000, .flush_seconds = 60});
  writer.add_scalar("a", 1, 1);
  EXPECT_EQ(events_in(temp.path()).size(), 0u);
  clock.advance(std::chrono::seconds(60));
  writer.add_scalar("a", 2, 2);
  EXPECT_EQ(events_in(temp.path()).size(), 3u);
  int64_t added = 2;
  while (events_in(temp.path()).size() == 3 && added < 100) writer.add_scalar("a", 1, ++added);
  EXPECT_LT(added, 50) << "1000 bytes hold fewer than 50 records";
  EXPECT_EQ(events_in(temp.path()).size(), static_cast<size_t>(added) + 1);
}

TEST(EventWriter, ThreadsDoNotTearRecords) {
  TempDirectory temp;
  constexpr int kThreads = 4, kEach = 200;
  {
    EventWriter writer(temp.path(), local_file_system(), system_clock(), {.buffer_bytes = 500});
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) writer.add_scalar("thread" + std::to_string(t), i, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::map<std::string, int64_t> next;
  for (const Event& event : events_in(temp.path())) {
    for (const auto& value : event.values)
      EXPECT_EQ(event.step, next[value.tag]++) << "order within a thread";
  }
  ASSERT_EQ(next.size(), size_t{kThreads});
  for (const auto& [tag, count] : next) EXPECT_EQ(count, kEach) << tag;
}

TEST(EventWriter, FullDiskIsReportedAndTheNextFileIsGood) {
  TempDirectory temp;
  ManualClock clock;
  FaultFileSystem files(local_file_system());
  EventWriter writer(temp.path(), files, clock);
  writer.add_scalar("before", 1, 1);
  writer.flush();
  const std::string first = writer.path();
  files.set_plan({.no_space_from = 0});
  writer.add_scalar("lost", 1, 2);
  try {
    writer.flush();
    FAIL() << "a full disk went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr("1 summary events"));
  }
  files.set_plan({});
  writer.add_scalar("after", 1, 3);
  writer.close();
  EXPECT_NE(writer.path(), first);
  EXPECT_EQ(formats::read_events(local_file_system(), first).value().events.size(), 2u);
  const EventFile second = formats::read_events(local_file_system(), writer.path()).value();
  ASSERT_EQ(second.events.size(), 2u);
  EXPECT_EQ(second.events[1].values[0].tag, "after");
}

TEST(EventWriter, CrashAnywhereLeavesReadableFiles) {
  for (int64_t at = 0;; ++at) {
    ASSERT_LT(at, 100);
    for (const bool keep : {false, true}) {
      TempDirectory temp;
      ManualClock clock;
      FaultFileSystem files(local_file_system(), {.crash_at = at, .keep_unsynced = keep});
      {
        EventWriter writer(temp.path(), files, clock, {.buffer_bytes = 1});
        try {
          for (int64_t step = 0; step < 5; ++step) writer.add_scalar("a", 1, step);
        } catch (const Error& error) {
          EXPECT_TRUE(files.crashed());
        }
      }
      for (const std::string& path :
           formats::list_event_files(local_file_system(), temp.path()).value()) {
        EXPECT_FALSE(
            formats::read_events(local_file_system(), path).value().corruption.has_value());
      }
      if (!files.crashed()) return;
    }
  }
}

TEST(EventWriter, NonFiniteHistogramNamesItsTag) {
  TempDirectory temp;
  ManualClock clock;
  EventWriter writer(temp.path(), local_file_system(), clock);
  const std::vector<float> values = {1, NAN};
  try {
    writer.add_histogram("dense/kernel", values, 4);
    FAIL() << "NaN went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNonFinite);
    EXPECT_THAT(std::string(error.what()), HasSubstr("'dense/kernel'"));
    EXPECT_THAT(std::string(error.what()), HasSubstr("value 1"));
  }
}

}  // namespace
}  // namespace muster::inline v0_1::summary
