// Events as TensorBoard stores them: scalars, histograms and text by step, in files of TFRecords.
// Thread safety: values and free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// The file_version of the first event of every file.
inline constexpr std::string_view kEventFileVersion = "brain.Event:2";

// A distribution of values in buckets.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_squares = 0;
  // Bucket i holds counts[i] values in [limits[i - 1], limits[i]); as many limits as counts.
  std::vector<double> limits;
  std::vector<double> counts;
};

// One value under a tag: a point of a curve.
struct SummaryValue {
  std::string tag;
  // A scalar, a histogram, or text; nothing for kinds this reader does not know (images, audio,
  // ...).
  std::variant<std::monostate, float, Histogram, std::string> value;
};

// Says what happened to the run at this step.
enum class SessionStatus { kUnspecified = 0, kStart = 1, kStop = 2, kCheckpoint = 3 };

// A note on the run itself; a start makes TensorBoard hide later steps of earlier runs.
struct SessionLog {
  SessionStatus status = SessionStatus::kUnspecified;
  std::string checkpoint_path;
  std::string message;
};

// Holds one of: file_version, values, session_log.
struct Event {
  double wall_time = 0;  // Unix time, seconds
  int64_t step = 0;
  std::string file_version;
  std::vector<SummaryValue> values;
  std::optional<SessionLog> session_log;
};

// Returns the bytes of the message, without framing. Returns InvalidArgument when the event holds
// more than one kind, a value without kind, a tag that is not UTF-8, or a histogram with unequal
// numbers of limits and counts.
Result<std::string> encode_event(const Event& event);
// Returns Corrupt when the bytes are no such message. Newer writers store scalars and text as
// tensors; these are read too.
Result<Event> decode_event(Bytes bytes);

// The events that could be read from a file.
struct EventFile {
  std::vector<Event> events;
  bool partial_tail = false;        // the file ends inside a record: it may still be written
  std::optional<Error> corruption;  // why reading stopped before the end; `events` are those before
};

// Reads a whole event file. It returns an error only when the file cannot be opened or read; damage
// is told in the result.
Result<EventFile> read_events(FileSystem& files, const std::string& path);

// Paths of the event files directly in `directory` (names with ".tfevents."), oldest first by name;
// none when the directory does not exist.
Result<std::vector<std::string>> list_event_files(FileSystem& files, const std::string& directory);

}  // namespace muster::inline v0_1::formats
