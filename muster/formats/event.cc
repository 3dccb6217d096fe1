#include "muster/formats/event.h"

#include <fmt/format.h>

#include "muster/formats/internal/summary_codec.h"
#include "muster/formats/protobuf.h"
#include "muster/formats/tfrecord.h"

// Read and written field by field: protobuf itself could clash with the copy that some builds of
// LibTorch contain.
namespace muster::inline v0_1::formats {
namespace {

using internal::Builder;
using internal::Message;

// The part of the format that Muster writes and reads, by the format's field numbers.
namespace wire {
enum class Event : uint32_t {
  kWallTime = 1,     // double
  kStep = 2,         // int64
  kFileVersion = 3,  // string
  kGraph = 4,        // bytes of a Graph
  kSummary = 5,      // Summary
  kSessionLog = 7,   // SessionLog
};
enum class SessionLog : uint32_t {
  kStatus = 1,          // enum
  kCheckpointPath = 2,  // string
  kMessage = 3,         // string
};
enum class Summary : uint32_t { kValue = 1 };  // Value, repeated
}  // namespace wire

std::string encode_session_log(const SessionLog& from) {
  Builder<wire::SessionLog> to;
  to.add_varint(wire::SessionLog::kStatus, static_cast<int>(from.status));
  to.add_bytes(wire::SessionLog::kCheckpointPath, from.checkpoint_path);
  to.add_bytes(wire::SessionLog::kMessage, from.message);
  return to.take();
}

SessionLog decode_session_log(Message<wire::SessionLog> from) {
  SessionLog log;
  while (from.next()) {
    from.read(wire::SessionLog::kStatus, &log.status);
    from.read(wire::SessionLog::kCheckpointPath, &log.checkpoint_path);
    from.read(wire::SessionLog::kMessage, &log.message);
  }
  return log;
}

// Two bytes of a file can be a value without a tag and a kind.
bool says_nothing(const SummaryValue& value) {
  return value.tag.empty() && value.value.index() == 0;
}

// How many values there are that say something, in all parts of the message together.
size_t values_in(Message<wire::Event> from) {
  size_t count = 0;
  for (Message<wire::Summary> summary; from.find(wire::Event::kSummary, &summary);) {
    for (Bytes value; summary.find(wire::Summary::kValue, &value);) count += value.empty() ? 0 : 1;
  }
  return count;
}

// Throws Corrupt.
Event decode_message(Message<wire::Event> from) {
  Event event;
  event.values.reserve(values_in(from));
  Bytes bytes;
  Message<wire::Summary> summary;
  Message<wire::SessionLog> session_log;
  while (from.next()) {
    from.read(wire::Event::kWallTime, &event.wall_time);
    from.read(wire::Event::kStep, &event.step);
    from.read(wire::Event::kFileVersion, &event.file_version);
    if (from.read(wire::Event::kGraph, &bytes)) event.graph = decode_graph(bytes).value();
    if (from.read(wire::Event::kSummary, &summary)) {
      while (summary.find(wire::Summary::kValue, &bytes)) {
        SummaryValue value = internal::decode_summary_value(bytes);
        if (!says_nothing(value)) event.values.push_back(std::move(value));
      }
    }
    if (from.read(wire::Event::kSessionLog, &session_log))
      event.session_log = decode_session_log(session_log);
  }
  return event;
}

}  // namespace

Result<std::string> encode_event(const Event& event) {
  const int kinds = (event.file_version.empty() ? 0 : 1) + (event.values.empty() ? 0 : 1) +
                    (event.session_log ? 1 : 0) + (event.graph ? 1 : 0);
  if (kinds > 1) {
    return invalid_argument(
        "an event holds more than one of file_version, values, session_log and graph",
        "write one event for each");
  }
  Builder<wire::Event> message;
  message.add_fixed(wire::Event::kWallTime, event.wall_time);
  message.add_varint(wire::Event::kStep, event.step);
  message.add_bytes(wire::Event::kFileVersion, event.file_version);
  if (event.graph) message.put_bytes(wire::Event::kGraph, encode_graph(*event.graph));
  if (!event.values.empty()) {
    Builder<wire::Summary> summary;
    for (const SummaryValue& value : event.values) {
      const Result<std::string> encoded = internal::encode_summary_value(value);
      if (!encoded.ok()) return encoded.error();
      summary.put_bytes(wire::Summary::kValue, encoded.value());
    }
    message.put_bytes(wire::Event::kSummary, summary.bytes());
  }
  if (event.session_log) {
    message.put_bytes(wire::Event::kSessionLog, encode_session_log(*event.session_log));
  }
  return message.take();
}

Result<Event> decode_event(Bytes bytes) {
  try {
    return decode_message(Message<wire::Event>(bytes));
  } catch (const Error& error) {
    return error.with_context(fmt::format("{} bytes are not an event message", bytes.size()));
  }
}

Result<EventFile> read_events(FileSystem& files, const std::string& path) {
  Result<TfrecordReader> opened = TfrecordReader::open(files, path, Compression::kNone);
  if (!opened.ok()) return opened.error();
  TfrecordReader& reader = opened.value();
  EventFile file;
  Bytes payload;
  while (true) {
    const uint64_t offset = reader.offset();
    Result<RecordState> state = reader.poll(&payload);
    if (!state.ok()) {
      if (state.error().kind() != ErrorKind::kCorrupt) return state.error();
      file.corruption = state.error();
      return file;
    }
    if (state.value() != RecordState::kRecord) {
      file.partial_tail = state.value() == RecordState::kPartial;
      return file;
    }
    Result<Event> event = decode_event(payload);
    if (!event.ok()) {
      file.corruption = event.error().with_context("'" + path + "': the record at byte " +
                                                   std::to_string(offset) + " is not an event");
      return file;
    }
    file.events.push_back(std::move(event.value()));
  }
}

bool is_event_file(std::string_view name) {
  return name.find(".tfevents.") != std::string_view::npos;
}

Result<std::vector<std::string>> list_event_files(FileSystem& files, const std::string& directory) {
  Result<std::vector<std::string>> names = files.list_directory(directory);
  if (!names.ok()) {
    if (names.error().kind() == ErrorKind::kNotFound) return std::vector<std::string>();
    return names.error();
  }
  std::vector<std::string> paths;
  for (const std::string& name : names.value()) {
    if (is_event_file(name)) paths.push_back(join_path(directory, name));
  }
  return paths;
}

}  // namespace muster::inline v0_1::formats
