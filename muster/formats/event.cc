#include "muster/formats/event.h"

#include <fmt/format.h>

#include "muster/formats/internal/protobuf.h"
#include "muster/formats/internal/summary_codec.h"
#include "muster/formats/tfrecord.h"

// Read and written field by field: protobuf itself would be one more thing to clash with the copy
// that some builds of LibTorch bring.
namespace muster::inline v0_1::formats {
namespace {

using internal::add_double;
using internal::add_text;
using internal::Builder;
using internal::bytes_in;
using internal::Message;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

// What Muster writes and reads of the format, by the format's field numbers.
namespace wire {
enum class Event : protozero::pbf_tag_type {
  kWallTime = 1,     // double
  kStep = 2,         // int64
  kFileVersion = 3,  // string
  kGraph = 4,        // bytes of a Graph
  kSummary = 5,      // Summary
  kSessionLog = 7,   // SessionLog
};
enum class SessionLog : protozero::pbf_tag_type {
  kStatus = 1,          // enum
  kCheckpointPath = 2,  // string
  kMessage = 3,         // string
};
enum class Summary : protozero::pbf_tag_type { kValue = 1 };  // Value, repeated
}  // namespace wire

std::string encode_session_log(const SessionLog& from) {
  std::string bytes;
  Builder<wire::SessionLog> to(bytes);
  const int status = static_cast<int>(from.status);
  if (status != 0) to.add_enum(wire::SessionLog::kStatus, status);
  add_text(to, wire::SessionLog::kCheckpointPath, from.checkpoint_path);
  add_text(to, wire::SessionLog::kMessage, from.message);
  return bytes;
}

SessionLog decode_session_log(Message<wire::SessionLog> from) {
  SessionLog log;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::SessionLog::kStatus, pbf_wire_type::varint):
        log.status = static_cast<SessionStatus>(from.get_enum());
        break;
      case tag_and_type(wire::SessionLog::kCheckpointPath, pbf_wire_type::length_delimited):
        log.checkpoint_path = from.get_bytes();
        break;
      case tag_and_type(wire::SessionLog::kMessage, pbf_wire_type::length_delimited):
        log.message = from.get_bytes();
        break;
      default:
        from.skip();
    }
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
  while (from.next(wire::Event::kSummary, pbf_wire_type::length_delimited)) {
    Message<wire::Summary> summary(from.get_message());
    while (summary.next(wire::Summary::kValue, pbf_wire_type::length_delimited))
      count += summary.get_view().empty() ? 0 : 1;
  }
  return count;
}

// Throws protozero's exceptions, and Error of kind Corrupt.
Event decode_message(Message<wire::Event> from) {
  Event event;
  event.values.reserve(values_in(from));
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Event::kWallTime, pbf_wire_type::fixed64):
        event.wall_time = from.get_double();
        break;
      case tag_and_type(wire::Event::kStep, pbf_wire_type::varint):
        event.step = from.get_int64();
        break;
      case tag_and_type(wire::Event::kFileVersion, pbf_wire_type::length_delimited):
        event.file_version = from.get_bytes();
        break;
      case tag_and_type(wire::Event::kGraph, pbf_wire_type::length_delimited):
        event.graph = decode_graph(bytes_in(from.get_view())).value();
        break;
      case tag_and_type(wire::Event::kSummary, pbf_wire_type::length_delimited): {
        Message<wire::Summary> summary(from.get_message());
        while (summary.next(wire::Summary::kValue, pbf_wire_type::length_delimited)) {
          SummaryValue value = internal::decode_summary_value(bytes_in(summary.get_view()));
          if (!says_nothing(value)) event.values.push_back(std::move(value));
        }
        break;
      }
      case tag_and_type(wire::Event::kSessionLog, pbf_wire_type::length_delimited):
        event.session_log = decode_session_log(from.get_message());
        break;
      default:
        from.skip();
    }
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
  std::string bytes;
  Builder<wire::Event> message(bytes);
  add_double(message, wire::Event::kWallTime, event.wall_time);
  if (event.step != 0) message.add_int64(wire::Event::kStep, event.step);
  add_text(message, wire::Event::kFileVersion, event.file_version);
  if (event.graph) {
    const std::string graph = encode_graph(*event.graph);
    message.add_bytes(wire::Event::kGraph, graph.data(), graph.size());
  }
  if (!event.values.empty()) {
    Builder<wire::Summary> summary(message, wire::Event::kSummary);
    for (const SummaryValue& value : event.values) {
      const Result<std::string> encoded = internal::encode_summary_value(value);
      if (!encoded.ok()) return encoded.error();
      summary.add_message(wire::Summary::kValue, encoded.value());
    }
  }
  if (event.session_log) {
    message.add_message(wire::Event::kSessionLog, encode_session_log(*event.session_log));
  }
  return bytes;
}

Result<Event> decode_event(Bytes bytes) {
  try {
    return decode_message(internal::view_of(bytes));
  } catch (const Error& error) {
    return error.with_context(fmt::format("{} bytes are no event message", bytes.size()));
  } catch (const protozero::exception& error) {
    return corrupt(fmt::format("{} bytes are no event message: {}", bytes.size(), error.what()));
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
                                                   std::to_string(offset) + " is no event");
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
