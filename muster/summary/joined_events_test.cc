#include "muster/summary/internal/joined_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/files/testing/memory_store.h"
#include "muster/formats/event.h"
#include "muster/formats/tfrecord.h"
#include "muster/summary/internal/event_file.h"

namespace muster::inline v0_1::summary::internal {
namespace {

constexpr const char* kRun = "mem://b/run";

std::string name_of(int64_t step) {
  return join_path(kRun, event_file_name(1'700'000'000 + step, std::to_string(step), ""));
}

// Sends the event of a step as a file.
void send(MemoryStore& store, int64_t step) {
  std::string file = event_file_header(step);
  formats::append_tfrecord(
      file, bytes_of(formats::encode_event({.step = step, .values = {{"loss", 1.0f}}}).value()));
  store.write_atomically(name_of(step), file).value();
}

// The steps that a new reader sees.
std::vector<int64_t> steps_there(MemoryStore& store) {
  std::vector<int64_t> steps;
  for (const std::string& path : formats::list_event_files(store, kRun).value()) {
    const formats::EventFile file = formats::read_events(store, path).value();
    EXPECT_FALSE(file.partial_tail || file.corruption) << path;
    EXPECT_EQ(file.events.at(0).file_version, formats::kEventFileVersion) << path;
    for (size_t i = 1; i < file.events.size(); ++i) steps.push_back(file.events[i].step);
  }
  return steps;
}

std::vector<int64_t> steps_until(int64_t end) {
  std::vector<int64_t> steps;
  for (int64_t step = 0; step < end; ++step) steps.push_back(step);
  return steps;
}

bool goes_on() { return false; }

// Few files are left of many, a new reader finds each event once and in order, and files of the
// last minutes are left alone.
TEST(JoinedEvents, ManyBecomeFew) {
  MemoryStore store;
  ManualClock clock;
  const JoinOptions options{.after_seconds = 600, .files = 8, .most_bytes = 2'000};
  JoinedEvents joined(store, clock, options);
  constexpr int64_t kSteps = 500;
  size_t bytes = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    send(store, step);
    bytes += store.read_file(name_of(step)).value().size();
    joined.add(name_of(step));
    joined.join(goes_on);
    for (int64_t young = std::max<int64_t>(0, step - 9); young <= step; ++young)
      ASSERT_TRUE(store.exists(name_of(young)).value()) << young << " of " << step;
    if (step % 50 == 0) {
      ASSERT_EQ(steps_there(store), steps_until(step + 1));
    }
    clock.advance(std::chrono::minutes(1));
  }
  EXPECT_EQ(steps_there(store), steps_until(kSteps));
  EXPECT_LE(store.objects().size(), bytes / options.most_bytes + 2 * options.files + 10);
}

// A reader that continues from where it was in each file, as TensorBoard does, and looks now and
// then, sees each event once.
TEST(JoinedEvents, AReaderThatContinuesSeesEachEventOnce) {
  MemoryStore store;
  ManualClock clock;
  JoinedEvents joined(store, clock, {.after_seconds = 600, .files = 4, .most_bytes = 1'000});
  Random random(derive_key(24, {}));
  std::vector<int64_t> seen;
  std::string last;
  const auto look = [&] {
    for (const std::string& path : formats::list_event_files(store, kRun).value()) {
      if (path <= last) continue;
      last = path;
      for (const formats::Event& event : formats::read_events(store, path).value().events)
        if (!event.values.empty()) seen.push_back(event.step);
    }
  };
  for (int64_t step = 0; step < 200; ++step) {
    send(store, step);
    joined.add(name_of(step));
    joined.join(goes_on);
    // After a look that was 5 minutes ago at most.
    if (random.uniform() < 0.3 || step % 5 == 0) look();
    clock.advance(std::chrono::minutes(1));
  }
  look();
  EXPECT_EQ(seen, steps_until(200));
}

// Whichever request fails, once or for a while, or is done and its answer lost, no event is lost,
// and in the end none occurs twice.
TEST(JoinedEvents, FailuresNeitherLoseNorRepeatEvents) {
  for (int64_t fails = 0; fails < 24; ++fails) {
    for (const auto& [once, done] : std::vector<std::pair<bool, bool>>{
             {true, false}, {false, false}, {true, true}, {false, true}}) {
      MemoryStore store;
      ManualClock clock;
      JoinedEvents joined(store, clock, {.after_seconds = 60, .files = 4});
      for (int64_t step = 0; step < 12; ++step) {
        send(store, step);
        joined.add(name_of(step));
      }
      clock.advance(std::chrono::minutes(2));
      store.set_plan({.fail_at = once ? fails : -1,
                      .fail_from = once ? -1 : fails,
                      .writes_only = false,
                      .loses_answers = done});
      for (int i = 0; i < 3; ++i) joined.join(goes_on);
      store.set_plan({});
      for (int i = 0; i < 4; ++i) joined.join(goes_on);
      ASSERT_EQ(steps_there(store), steps_until(12)) << fails << once << done;
      EXPECT_EQ(store.objects().size(), 1u) << fails << once << done;
    }
  }
}

TEST(JoinedEvents, AFileCostsThreeRequestsAtMost) {
  MemoryStore store;
  ManualClock clock;
  JoinedEvents joined(store, clock, {.after_seconds = 60, .files = 4});
  for (int64_t step = 0; step < 40; ++step) {
    send(store, step);
    joined.add(name_of(step));
  }
  clock.advance(std::chrono::minutes(2));
  store.set_plan({.writes_only = false});
  for (int i = 0; i < 20; ++i) joined.join(goes_on);
  EXPECT_EQ(store.objects().size(), 1u);
  EXPECT_GE(store.requests(), 40);
  EXPECT_LE(store.requests(), 3 * 40);
}

TEST(JoinedEvents, AProcessThatEndsDoesNotBeginToJoin) {
  MemoryStore store;
  ManualClock clock;
  JoinedEvents joined(store, clock, {.after_seconds = 60, .files = 4});
  for (int64_t step = 0; step < 4; ++step) {
    send(store, step);
    joined.add(name_of(step));
  }
  clock.advance(std::chrono::minutes(2));
  joined.join([] { return true; });
  EXPECT_EQ(store.objects().size(), 4u);
}

// A file that was removed holds up no others.
TEST(JoinedEvents, OneThatIsGoneIsPassedOver) {
  MemoryStore store;
  ManualClock clock;
  JoinedEvents joined(store, clock, {.after_seconds = 60, .files = 4});
  for (int64_t step = 0; step < 9; ++step) {
    send(store, step);
    joined.add(name_of(step));
  }
  store.remove(name_of(1)).value();
  clock.advance(std::chrono::minutes(2));
  for (int i = 0; i < 4; ++i) joined.join(goes_on);
  EXPECT_EQ(store.objects().size(), 1u);
  EXPECT_EQ(steps_there(store), (std::vector<int64_t>{0, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace muster::inline v0_1::summary::internal
