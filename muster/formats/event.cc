#include "muster/formats/event.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "muster/base/strings.h"
#include "muster/formats/event.pb.h"
#include "muster/formats/tfrecord.h"

namespace muster::formats {
namespace {

// Numbers of TensorFlow's DataType.
constexpr int kFloat = 1;
constexpr int kDouble = 2;
constexpr int kString = 7;

Status encode_value(const SummaryValue& from, wire::Summary::Value* to) {
  if (!is_utf8(from.tag)) {
    return invalid_argument("the summary tag with the bytes " + hex_bytes(bytes_of(from.tag)) +
                            " is not UTF-8");
  }
  to->set_tag(from.tag);
  if (const auto* scalar = std::get_if<float>(&from.value)) {
    to->set_simple_value(*scalar);
  } else if (const auto* histogram = std::get_if<Histogram>(&from.value)) {
    if (histogram->limits.size() != histogram->counts.size()) {
      return invalid_argument("the histogram '" + from.tag + "' has " +
                              std::to_string(histogram->limits.size()) + " limits but " +
                              std::to_string(histogram->counts.size()) + " counts");
    }
    wire::Histogram* out = to->mutable_histo();
    out->set_min(histogram->min);
    out->set_max(histogram->max);
    out->set_num(histogram->count);
    out->set_sum(histogram->sum);
    out->set_sum_squares(histogram->sum_squares);
    out->mutable_bucket_limit()->Add(histogram->limits.begin(), histogram->limits.end());
    out->mutable_bucket()->Add(histogram->counts.begin(), histogram->counts.end());
  } else if (const auto* text = std::get_if<std::string>(&from.value)) {
    // TensorBoard's text plugin wants a vector of strings.
    to->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
    wire::Tensor* out = to->mutable_tensor();
    out->set_dtype(kString);
    out->mutable_tensor_shape()->add_dim()->set_size(1);
    out->add_string_val(*text);
  } else {
    return invalid_argument("the summary '" + from.tag + "' has no value");
  }
  return {};
}

// The single number or text of a tensor; nothing when it is of another kind.
std::variant<std::monostate, float, Histogram, std::string> decode_tensor(
    const wire::Tensor& tensor) {
  if (tensor.dtype() == kString && tensor.string_val_size() == 1) return tensor.string_val(0);
  if (tensor.dtype() == kFloat) {
    if (tensor.float_val_size() == 1) return tensor.float_val(0);
    if (tensor.tensor_content().size() == sizeof(float)) {
      return load_little_endian<float>(tensor.tensor_content().data());
    }
  }
  if (tensor.dtype() == kDouble) {
    if (tensor.double_val_size() == 1) return static_cast<float>(tensor.double_val(0));
    if (tensor.tensor_content().size() == sizeof(double)) {
      return static_cast<float>(load_little_endian<double>(tensor.tensor_content().data()));
    }
  }
  return {};
}

SummaryValue decode_value(const wire::Summary::Value& from) {
  SummaryValue value{.tag = from.tag(), .value = {}};
  switch (from.value_case()) {
    case wire::Summary::Value::kSimpleValue:
      value.value = from.simple_value();
      break;
    case wire::Summary::Value::kHisto: {
      const wire::Histogram& histogram = from.histo();
      // A damaged file may hold unequal lists: such a value counts as unknown.
      if (histogram.bucket_limit_size() != histogram.bucket_size()) break;
      value.value =
          Histogram{.min = histogram.min(),
                    .max = histogram.max(),
                    .count = histogram.num(),
                    .sum = histogram.sum(),
                    .sum_squares = histogram.sum_squares(),
                    .limits = {histogram.bucket_limit().begin(), histogram.bucket_limit().end()},
                    .counts = {histogram.bucket().begin(), histogram.bucket().end()}};
      break;
    }
    case wire::Summary::Value::kTensor:
      value.value = decode_tensor(from.tensor());
      break;
    case wire::Summary::Value::VALUE_NOT_SET:
      break;
  }
  return value;
}

}  // namespace

Result<std::string> encode_event(const Event& event) {
  const int kinds = (event.file_version.empty() ? 0 : 1) + (event.values.empty() ? 0 : 1) +
                    (event.session_log ? 1 : 0);
  if (kinds > 1) {
    return invalid_argument("an event holds more than one of file_version, values and session_log",
                            "write one event for each");
  }
  wire::Event message;
  message.set_wall_time(event.wall_time);
  message.set_step(event.step);
  if (!event.file_version.empty()) message.set_file_version(event.file_version);
  for (const SummaryValue& value : event.values) {
    if (Status encoded = encode_value(value, message.mutable_summary()->add_value());
        !encoded.ok()) {
      return encoded.error();
    }
  }
  if (event.session_log) {
    wire::SessionLog* log = message.mutable_session_log();
    log->set_status(static_cast<wire::SessionLog::Status>(event.session_log->status));
    log->set_checkpoint_path(event.session_log->checkpoint_path);
    log->set_msg(event.session_log->message);
  }
  std::string bytes;
  {
    // The same event gives the same bytes in every process.
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

Result<Event> decode_event(Bytes bytes) {
  wire::Event message;
  if (bytes.size() > INT32_MAX ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return corrupt(std::to_string(bytes.size()) + " bytes are no event message");
  }
  Event event{.wall_time = message.wall_time(),
              .step = message.step(),
              .file_version = message.file_version()};
  for (const wire::Summary::Value& value : message.summary().value())
    event.values.push_back(decode_value(value));
  if (message.has_session_log()) {
    const wire::SessionLog& log = message.session_log();
    event.session_log = SessionLog{.status = static_cast<SessionStatus>(log.status()),
                                   .checkpoint_path = log.checkpoint_path(),
                                   .message = log.msg()};
  }
  return event;
}

Result<EventFile> read_events(FileSystem& files, const std::string& path) {
  Result<std::unique_ptr<FileReader>> opened = files.open_reader(path);
  if (!opened.ok()) return opened.error();
  TfrecordReader reader(std::move(opened.value()));
  EventFile file;
  std::string payload;
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
    Result<Event> event = decode_event(bytes_of(payload));
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

}  // namespace muster::formats
