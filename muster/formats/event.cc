#include "muster/formats/event.h"

#include <fmt/format.h>

#include <bit>
#include <protozero/pbf_builder.hpp>
#include <protozero/pbf_message.hpp>

#include "muster/base/strings.h"
#include "muster/formats/tfrecord.h"

// Read and written field by field: protobuf itself would be one more thing to clash with the copy
// that some builds of LibTorch bring.
namespace muster::inline v0_1::formats {
namespace {

using protozero::pbf_wire_type;
using protozero::tag_and_type;

// What Muster writes and reads of the format, by the format's field numbers.
namespace wire {
enum class Event : protozero::pbf_tag_type {
  kWallTime = 1,     // double
  kStep = 2,         // int64
  kFileVersion = 3,  // string
  kSummary = 5,      // Summary
  kSessionLog = 7,   // SessionLog
};
enum class SessionLog : protozero::pbf_tag_type {
  kStatus = 1,          // enum
  kCheckpointPath = 2,  // string
  kMessage = 3,         // string
};
enum class Summary : protozero::pbf_tag_type { kValue = 1 };  // Value, repeated
enum class Value : protozero::pbf_tag_type {
  kTag = 1,          // string
  kSimpleValue = 2,  // float
  kHistogram = 5,    // Histogram
  kTensor = 8,       // Tensor
  kMetadata = 9,     // Metadata
};
enum class Metadata : protozero::pbf_tag_type { kPluginData = 1 };    // PluginData
enum class PluginData : protozero::pbf_tag_type { kPluginName = 1 };  // string
enum class Histogram : protozero::pbf_tag_type {
  kMin = 1,  // double, as all that follow
  kMax = 2,
  kCount = 3,
  kSum = 4,
  kSumSquares = 5,
  kLimits = 6,  // repeated
  kCounts = 7,  // repeated
};
enum class Tensor : protozero::pbf_tag_type {
  kDtype = 1,    // enum
  kShape = 2,    // Shape
  kContent = 4,  // bytes
  kFloats = 5,   // float, repeated
  kDoubles = 6,  // double, repeated
  kStrings = 8,  // bytes, repeated
};
enum class Shape : protozero::pbf_tag_type { kDimension = 2 };  // Dimension, repeated
enum class Dimension : protozero::pbf_tag_type { kSize = 1 };   // int64
}  // namespace wire

// A builder inside a builder leaves out what stays empty; add_message() does not.
template <typename Field>
using Builder = protozero::pbf_builder<Field>;
template <typename Field>
using Message = protozero::pbf_message<Field>;

// Numbers of TensorFlow's DataType.
constexpr int kFloat = 1;
constexpr int kDouble = 2;
constexpr int kString = 7;

// A field that is not there reads as 0, so 0 is not written; -0 is another number.
template <typename Field>
void add_double(Builder<Field>& to, Field field, double value) {
  if (std::bit_cast<uint64_t>(value) != 0) to.add_double(field, value);
}

template <typename Field>
void add_text(Builder<Field>& to, Field field, std::string_view text) {
  if (!text.empty()) to.add_bytes(field, text.data(), text.size());
}

std::string encode_histogram(const Histogram& from) {
  std::string bytes;
  Builder<wire::Histogram> to(bytes);
  add_double(to, wire::Histogram::kMin, from.min);
  add_double(to, wire::Histogram::kMax, from.max);
  add_double(to, wire::Histogram::kCount, from.count);
  add_double(to, wire::Histogram::kSum, from.sum);
  add_double(to, wire::Histogram::kSumSquares, from.sum_squares);
  to.add_packed_double(wire::Histogram::kLimits, from.limits.begin(), from.limits.end());
  to.add_packed_double(wire::Histogram::kCounts, from.counts.begin(), from.counts.end());
  return bytes;
}

std::string encode_session_log(const SessionLog& from) {
  std::string bytes;
  Builder<wire::SessionLog> to(bytes);
  const int status = static_cast<int>(from.status);
  if (status != 0) to.add_enum(wire::SessionLog::kStatus, status);
  add_text(to, wire::SessionLog::kCheckpointPath, from.checkpoint_path);
  add_text(to, wire::SessionLog::kMessage, from.message);
  return bytes;
}

// TensorBoard's text plugin wants a vector of strings.
void encode_text(const std::string& text, Builder<wire::Value>& to) {
  {
    Builder<wire::Tensor> tensor(to, wire::Value::kTensor);
    tensor.add_enum(wire::Tensor::kDtype, kString);
    {
      Builder<wire::Shape> shape(tensor, wire::Tensor::kShape);
      Builder<wire::Dimension> dimension(shape, wire::Shape::kDimension);
      dimension.add_int64(wire::Dimension::kSize, 1);
    }
    tensor.add_bytes(wire::Tensor::kStrings, text);
  }
  Builder<wire::Metadata> metadata(to, wire::Value::kMetadata);
  Builder<wire::PluginData> plugin(metadata, wire::Metadata::kPluginData);
  add_text(plugin, wire::PluginData::kPluginName, "text");
}

Status encode_value(const SummaryValue& from, Builder<wire::Summary>& summary) {
  if (!is_utf8(from.tag)) {
    return invalid_argument("the summary tag with the bytes " + hex_bytes(bytes_of(from.tag)) +
                            " is not UTF-8");
  }
  Builder<wire::Value> to(summary, wire::Summary::kValue);
  add_text(to, wire::Value::kTag, from.tag);
  if (const auto* scalar = std::get_if<float>(&from.value)) {
    to.add_float(wire::Value::kSimpleValue, *scalar);
  } else if (const auto* histogram = std::get_if<Histogram>(&from.value)) {
    if (histogram->limits.size() != histogram->counts.size()) {
      return invalid_argument("the histogram '" + from.tag + "' has " +
                              std::to_string(histogram->limits.size()) + " limits but " +
                              std::to_string(histogram->counts.size()) + " counts");
    }
    to.add_message(wire::Value::kHistogram, encode_histogram(*histogram));
  } else if (const auto* text = std::get_if<std::string>(&from.value)) {
    encode_text(*text, to);
  } else {
    return invalid_argument("the summary '" + from.tag + "' has no value");
  }
  return {};
}

// Repeated numbers come packed into one field or one by one.
template <typename Field>
bool read_doubles(Message<Field>& from, std::vector<double>* to) {
  if (from.wire_type() == pbf_wire_type::fixed64) {
    to->push_back(from.get_double());
  } else if (from.wire_type() == pbf_wire_type::length_delimited) {
    for (const double number : from.get_packed_double()) to->push_back(number);
  } else {
    return false;
  }
  return true;
}

template <typename Field>
bool read_floats(Message<Field>& from, std::vector<float>* to) {
  if (from.wire_type() == pbf_wire_type::fixed32) {
    to->push_back(from.get_float());
  } else if (from.wire_type() == pbf_wire_type::length_delimited) {
    for (const float number : from.get_packed_float()) to->push_back(number);
  } else {
    return false;
  }
  return true;
}

std::variant<std::monostate, float, Histogram, std::string> decode_histogram(
    Message<wire::Histogram> from) {
  Histogram histogram;
  const auto read = [&](double* to) {
    if (from.wire_type() == pbf_wire_type::fixed64) {
      *to = from.get_double();
    } else {
      from.skip();
    }
  };
  while (from.next()) {
    switch (from.tag()) {
      case wire::Histogram::kMin:
        read(&histogram.min);
        break;
      case wire::Histogram::kMax:
        read(&histogram.max);
        break;
      case wire::Histogram::kCount:
        read(&histogram.count);
        break;
      case wire::Histogram::kSum:
        read(&histogram.sum);
        break;
      case wire::Histogram::kSumSquares:
        read(&histogram.sum_squares);
        break;
      case wire::Histogram::kLimits:
        if (!read_doubles(from, &histogram.limits)) from.skip();
        break;
      case wire::Histogram::kCounts:
        if (!read_doubles(from, &histogram.counts)) from.skip();
        break;
      default:
        from.skip();
    }
  }
  // A damaged file may hold unequal lists: such a value counts as unknown.
  if (histogram.limits.size() != histogram.counts.size()) return {};
  return histogram;
}

// The single number or text of a tensor; nothing when it is of another kind.
std::variant<std::monostate, float, Histogram, std::string> decode_tensor(
    Message<wire::Tensor> from) {
  int dtype = 0;
  std::string content;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::string> strings;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Tensor::kDtype, pbf_wire_type::varint):
        dtype = from.get_enum();
        break;
      case tag_and_type(wire::Tensor::kContent, pbf_wire_type::length_delimited):
        content = from.get_bytes();
        break;
      case tag_and_type(wire::Tensor::kStrings, pbf_wire_type::length_delimited):
        strings.push_back(from.get_bytes());
        break;
      default:
        if (!(from.tag() == wire::Tensor::kFloats && read_floats(from, &floats)) &&
            !(from.tag() == wire::Tensor::kDoubles && read_doubles(from, &doubles))) {
          from.skip();
        }
    }
  }
  if (dtype == kString && strings.size() == 1) return strings[0];
  if (dtype == kFloat) {
    if (floats.size() == 1) return floats[0];
    if (content.size() == sizeof(float)) return load_little_endian<float>(content.data());
  }
  if (dtype == kDouble) {
    if (doubles.size() == 1) return static_cast<float>(doubles[0]);
    if (content.size() == sizeof(double)) {
      return static_cast<float>(load_little_endian<double>(content.data()));
    }
  }
  return {};
}

SummaryValue decode_value(Message<wire::Value> from) {
  SummaryValue value;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Value::kTag, pbf_wire_type::length_delimited):
        value.tag = from.get_bytes();
        break;
      case tag_and_type(wire::Value::kSimpleValue, pbf_wire_type::fixed32):
        value.value = from.get_float();
        break;
      case tag_and_type(wire::Value::kHistogram, pbf_wire_type::length_delimited):
        value.value = decode_histogram(from.get_message());
        break;
      case tag_and_type(wire::Value::kTensor, pbf_wire_type::length_delimited):
        value.value = decode_tensor(from.get_message());
        break;
      default:
        from.skip();
    }
  }
  return value;
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

// Throws protozero's exceptions.
Event decode_message(Message<wire::Event> from) {
  Event event;
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
      case tag_and_type(wire::Event::kSummary, pbf_wire_type::length_delimited): {
        Message<wire::Summary> summary(from.get_message());
        while (summary.next(wire::Summary::kValue, pbf_wire_type::length_delimited)) {
          event.values.push_back(decode_value(summary.get_message()));
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
                    (event.session_log ? 1 : 0);
  if (kinds > 1) {
    return invalid_argument("an event holds more than one of file_version, values and session_log",
                            "write one event for each");
  }
  std::string bytes;
  Builder<wire::Event> message(bytes);
  add_double(message, wire::Event::kWallTime, event.wall_time);
  if (event.step != 0) message.add_int64(wire::Event::kStep, event.step);
  add_text(message, wire::Event::kFileVersion, event.file_version);
  if (!event.values.empty()) {
    Builder<wire::Summary> summary(message, wire::Event::kSummary);
    for (const SummaryValue& value : event.values) {
      if (Status encoded = encode_value(value, summary); !encoded.ok()) return encoded.error();
    }
  }
  if (event.session_log) {
    message.add_message(wire::Event::kSessionLog, encode_session_log(*event.session_log));
  }
  return bytes;
}

Result<Event> decode_event(Bytes bytes) {
  try {
    return decode_message(Message<wire::Event>(
        protozero::data_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
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

Result<std::vector<std::string>> list_event_files(FileSystem& files, const std::string& directory) {
  Result<std::vector<std::string>> names = files.list_directory(directory);
  if (!names.ok()) {
    if (names.error().kind() == ErrorKind::kNotFound) return std::vector<std::string>();
    return names.error();
  }
  std::vector<std::string> paths;
  for (const std::string& name : names.value()) {
    if (name.find(".tfevents.") != std::string::npos) paths.push_back(join_path(directory, name));
  }
  return paths;
}

}  // namespace muster::inline v0_1::formats
