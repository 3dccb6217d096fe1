#include "muster/formats/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

namespace muster::inline v0_1::formats {
namespace {

using nlohmann::json;

// Bytes that are not UTF-8 become a replacement character.
std::string dump_of(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

// Perfetto has a meaning of its own for process 0 and thread 0.
int shown(int number) { return number + 1; }

// Exact: the format has microseconds, and takes fractions.
std::string microseconds(int64_t nanoseconds) {
  return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
}

std::string metadata(const char* name, int process, int thread, const json& args) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{}}})", name,
                     shown(process), shown(thread), dump_of(args));
}

}  // namespace

std::string trace_event_json(const Timeline& timeline) {
  std::vector<std::string> events;
  std::set<int> processes;  // named already
  for (size_t t = 0; t < timeline.tracks.size(); ++t) {
    const TimelineTrack& track = timeline.tracks[t];
    const int thread = static_cast<int>(t);
    if (processes.insert(track.process).second) {
      events.push_back(
          metadata("process_name", track.process, thread, {{"name", track.process_name}}));
      events.push_back(metadata("process_sort_index", track.process, thread,
                                {{"sort_index", shown(track.process)}}));
    }
    events.push_back(metadata("thread_name", track.process, thread, {{"name", track.name}}));
    events.push_back(
        metadata("thread_sort_index", track.process, thread, {{"sort_index", shown(thread)}}));
  }
  // A span precedes the spans that it contains.
  std::vector<const TimelineSpan*> spans;
  for (const TimelineSpan& span : timeline.spans) spans.push_back(&span);
  std::ranges::stable_sort(
      spans, {}, [](const TimelineSpan* span) { return std::tuple(span->begin, -span->end); });
  for (const TimelineSpan* span : spans) {
    json args = json::object();
    for (const auto& [name, value] : span->args) args[name] = value;
    const int process = timeline.tracks.at(static_cast<size_t>(span->track)).process;
    events.push_back(
        fmt::format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{}}})",
                    dump_of(span->name), shown(process), shown(span->track),
                    microseconds(span->begin - spans.front()->begin),
                    microseconds(span->end - span->begin), dump_of(args)));
  }
  return fmt::format("{{\"traceEvents\":[\n{}\n],\n\"displayTimeUnit\":\"ms\",\"otherData\":{}}}\n",
                     fmt::join(events, ",\n"), dump_of(json(timeline.notes)));
}

}  // namespace muster::inline v0_1::formats
