#include "muster/formats/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::inline v0_1::formats {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

// The values of `key` in the events of one phase.
std::vector<json> values_of(const json& trace, const std::string& phase, const std::string& key) {
  std::vector<json> values;
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) values.push_back(event.at(key));
  }
  return values;
}

TEST(TimelineTest, SpansAreInMicrosecondsAndBeginAtZero) {
  const json trace = json::parse(
      trace_event_json({.tracks = {{.process = 0, .process_name = "worker 0", .name = "step"},
                                   {.process = 3, .process_name = "worker 3", .name = "reduction"}},
                        .spans = {{.name = "bucket 1 of 2",
                                   .track = 1,
                                   .begin = 5'000'002'500,
                                   .end = 5'000'002'501,
                                   .args = {{"bytes", 1'000'000'000'000}}},
                                  {.name = "inner", .begin = 5'000'000'000, .end = 5'000'001'000},
                                  {.name = "outer", .begin = 5'000'000'000, .end = 5'001'234'567}},
                        .notes = {{"steps", "7"}}}));
  EXPECT_THAT(values_of(trace, "X", "name"), ElementsAre("outer", "inner", "bucket 1 of 2"));
  EXPECT_THAT(values_of(trace, "X", "ts"), ElementsAre(0.0, 0.0, 2.5));
  EXPECT_THAT(values_of(trace, "X", "dur"), ElementsAre(1234.567, 1.0, 0.001));
  EXPECT_THAT(values_of(trace, "X", "pid"), ElementsAre(1, 1, 4));
  EXPECT_THAT(values_of(trace, "X", "tid"), ElementsAre(1, 1, 2));
  EXPECT_EQ(values_of(trace, "X", "args")[2], (json{{"bytes", 1'000'000'000'000}}));
  EXPECT_EQ(trace.at("otherData"), (json{{"steps", "7"}}));
  EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
}

TEST(TimelineTest, ProcessesAndTracksHaveNamesAndAnOrder) {
  const json trace = json::parse(trace_event_json(
      {.tracks = {{.process = 1, .process_name = "worker 1", .name = "step"},
                  {.process = 1, .process_name = "worker 1", .name = "reduction"}}}));
  const json& events = trace.at("traceEvents");
  ASSERT_EQ(events.size(), 6u);
  const auto event = [](const char* name, int thread, const json& args) {
    return json{{"ph", "M"}, {"name", name}, {"pid", 2}, {"tid", thread}, {"args", args}};
  };
  EXPECT_EQ(events[0], event("process_name", 1, {{"name", "worker 1"}}));
  EXPECT_EQ(events[1], event("process_sort_index", 1, {{"sort_index", 2}}));
  EXPECT_EQ(events[2], event("thread_name", 1, {{"name", "step"}}));
  EXPECT_EQ(events[3], event("thread_sort_index", 1, {{"sort_index", 1}}));
  EXPECT_EQ(events[4], event("thread_name", 2, {{"name", "reduction"}}));
  EXPECT_EQ(events[5], event("thread_sort_index", 2, {{"sort_index", 2}}));
}

TEST(TimelineTest, NamesMayHoldAnyBytes) {
  const json trace =
      json::parse(trace_event_json({.tracks = {{.process_name = "a\"b\\c\n\x01", .name = "{}"}},
                                    .spans = {{.name = "\xff\"é{0}"}},
                                    .notes = {{"a\tb", "\"\xc3"}}}));
  EXPECT_EQ(trace.at("traceEvents")[0].at("args").at("name"), "a\"b\\c\n\x01");
  EXPECT_EQ(trace.at("traceEvents")[2].at("args").at("name"), "{}");
  EXPECT_EQ(trace.at("traceEvents")[4].at("name"), "\xEF\xBF\xBD\"é{0}");
  EXPECT_EQ(trace.at("otherData").at("a\tb"), "\"\xEF\xBF\xBD");
}

TEST(TimelineTest, AnEmptyOneIsATrace) {
  EXPECT_EQ(json::parse(trace_event_json({})).at("traceEvents"), json::array());
}

}  // namespace
}  // namespace muster::inline v0_1::formats
