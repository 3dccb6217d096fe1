// Events as TensorBoard stores them: summaries by step, notes on the run and the graph of its
// model, in files of TFRecords. Thread safety: values and free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/result.h"
#include "muster/formats/graph_def.h"
#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::formats {

// The file_version of the first event of every file.
inline constexpr std::string_view kEventFileVersion = "brain.Event:2";

// The event of the run at this step.
enum class SessionStatus { kUnspecified = 0, kStart = 1, kStop = 2, kCheckpoint = 3 };

// A note on the run itself; a start makes TensorBoard hide later steps of earlier runs.
struct SessionLog {
  SessionStatus status = SessionStatus::kUnspecified;
  std::string checkpoint_path{};
  std::string message{};
};

// Holds one of: file_version, values, session_log, graph.
struct Event {
  double wall_time = 0;  // Unix time, seconds
  int64_t step = 0;
  std::string file_version{};
  std::vector<SummaryValue> values{};
  std::optional<SessionLog> session_log{};
  std::optional<GraphDef> graph{};
};

// Returns the bytes of the message, without framing. Returns InvalidArgument when the event holds
// more than one kind, a value without kind, a tag that is not UTF-8, a histogram with unequal
// numbers of limits and counts, or a tensor of both texts and bytes.
Result<std::string> encode_event(const Event& event);
// Returns Corrupt when the bytes are no such message. Newer writers store scalars and text as
// tensors; these are read too.
Result<Event> decode_event(Bytes bytes);

// The events that could be read from a file.
struct EventFile {
  std::vector<Event> events{};
  bool partial_tail = false;  // the file ends inside a record: it may still be written
  std::optional<Error>
      corruption{};  // why reading stopped before the end; `events` are those before
};

// Reads a whole event file. It returns an error only if the file cannot be opened or read; damage
// is reported in the result.
Result<EventFile> read_events(FileSystem& files, const std::string& path);

// Whether a file of this name holds events: one with ".tfevents." in it.
bool is_event_file(std::string_view name);

// Paths of the event files directly in `directory`, oldest first by name;
// none when the directory does not exist.
Result<std::vector<std::string>> list_event_files(FileSystem& files, const std::string& directory);

}  // namespace muster::inline v0_1::formats
