// Events in time, as rows of spans, and their text in the Trace Event format, which
// chrome://tracing and Perfetto (ui.perfetto.dev) open. Thread safety: values and a pure function.
//
// Source of the format: "Trace Event Format", the document of the Catapult project: complete events
// ("X") in microseconds, and metadata events ("M") that name processes and threads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::formats {

// A row. Viewers group the rows of one process under its name.
struct TimelineTrack {
  int process = 0;
  std::string process_name{};
  std::string name{};
};

// Two spans of one track must be nested or not overlap: viewers draw no others.
struct TimelineSpan {
  std::string name{};
  int track = 0;      // index in Timeline::tracks
  int64_t begin = 0;  // nanoseconds on a clock shared by all spans
  int64_t end = 0;    // not before `begin`
  std::vector<std::pair<std::string, int64_t>> args = {};  // shown with it
};

struct Timeline {
  std::vector<TimelineTrack> tracks{};
  std::vector<TimelineSpan> spans{};           // in any order
  std::map<std::string, std::string> notes{};  // of the whole timeline, by name
};

// Returns the text of a file: one event a line, the earliest span at 0. Names may hold any bytes.
MUSTER_EXPORT std::string trace_event_json(const Timeline& timeline);

}  // namespace muster::inline v0_1::formats
