#include "muster/formats/internal/summary_codec.h"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <utility>

#include "muster/base/strings.h"
#include "muster/formats/internal/protobuf.h"

namespace muster::inline v0_1::formats {

std::string to_string(TensorType type) {
  switch (type) {
    case TensorType::kFloat32:
      return "float32";
    case TensorType::kFloat64:
      return "float64";
    case TensorType::kInt32:
      return "int32";
    case TensorType::kUint8:
      return "uint8";
    case TensorType::kInt16:
      return "int16";
    case TensorType::kInt8:
      return "int8";
    case TensorType::kString:
      return "string";
    case TensorType::kInt64:
      return "int64";
    case TensorType::kBool:
      return "bool";
    case TensorType::kBfloat16:
      return "bfloat16";
    case TensorType::kFloat16:
      return "float16";
  }
  return fmt::format("type {}", static_cast<int>(type));
}

namespace internal {
namespace {

using protozero::pbf_wire_type;
using protozero::tag_and_type;
using AnyValue = decltype(SummaryValue::value);

// What Muster writes and reads of the format, by the format's field numbers.
namespace wire {
enum class Value : protozero::pbf_tag_type {
  kTag = 1,          // string
  kSimpleValue = 2,  // float
  kImage = 4,        // Image
  kHistogram = 5,    // Histogram
  kAudio = 6,        // Audio
  kTensor = 8,       // Tensor
  kMetadata = 9,     // Metadata
};
enum class Metadata : protozero::pbf_tag_type {
  kPluginData = 1,  // PluginData
  kDataClass = 4,   // enum
};
enum class PluginData : protozero::pbf_tag_type {
  kPluginName = 1,  // string
  kContent = 2,     // bytes
};
enum class Image : protozero::pbf_tag_type {
  kHeight = 1,      // int32
  kWidth = 2,       // int32
  kColorspace = 3,  // int32: how many channels there are
  kEncoded = 4,     // bytes
};
enum class Audio : protozero::pbf_tag_type {
  kSampleRate = 1,   // float
  kChannels = 2,     // int64
  kFrames = 3,       // int64
  kEncoded = 4,      // bytes
  kContentType = 5,  // string
};
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
}  // namespace wire

// The DATA_CLASS_TENSOR of TensorBoard, without which it hides the tensors of newer plugins.
constexpr int kTensorClass = 2;

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

std::string encode_image(const ImageSummary& from) {
  std::string bytes;
  Builder<wire::Image> to(bytes);
  add_number(to, wire::Image::kHeight, from.height);
  add_number(to, wire::Image::kWidth, from.width);
  add_number(to, wire::Image::kColorspace, from.channels);
  add_text(to, wire::Image::kEncoded, from.encoded);
  return bytes;
}

std::string encode_audio(const AudioSummary& from) {
  std::string bytes;
  Builder<wire::Audio> to(bytes);
  if (std::bit_cast<uint32_t>(from.sample_rate) != 0)
    to.add_float(wire::Audio::kSampleRate, from.sample_rate);
  add_number(to, wire::Audio::kChannels, from.channels);
  add_number(to, wire::Audio::kFrames, from.frames);
  add_text(to, wire::Audio::kEncoded, from.encoded);
  add_text(to, wire::Audio::kContentType, from.content_type);
  return bytes;
}

void add_tensor(Builder<wire::Value>& to, const TensorSummary& from) {
  Builder<wire::Tensor> tensor(to, wire::Value::kTensor);
  if (from.type != TensorType()) tensor.add_enum(wire::Tensor::kDtype, static_cast<int>(from.type));
  if (!from.shape.empty()) tensor.add_message(wire::Tensor::kShape, encode_shape(from.shape));
  add_text(tensor, wire::Tensor::kContent, from.content);
  for (const std::string& text : from.strings) tensor.add_bytes(wire::Tensor::kStrings, text);
}

void add_metadata(Builder<wire::Value>& to, const TensorSummary& from, bool newer) {
  if (from.plugin.empty() && from.plugin_content.empty()) return;
  Builder<wire::Metadata> metadata(to, wire::Value::kMetadata);
  {
    Builder<wire::PluginData> plugin(metadata, wire::Metadata::kPluginData);
    add_text(plugin, wire::PluginData::kPluginName, from.plugin);
    add_text(plugin, wire::PluginData::kContent, from.plugin_content);
  }
  if (newer) metadata.add_enum(wire::Metadata::kDataClass, kTensorClass);
}

// TensorBoard's text plugin wants a vector of strings.
TensorSummary text_tensor(const std::string& text) {
  return {.plugin = "text", .type = TensorType::kString, .shape = {1}, .strings = {text}};
}

Status check_value(const SummaryValue& from) {
  if (!is_utf8(from.tag)) {
    return invalid_argument("the summary tag with the bytes " + hex_bytes(bytes_of(from.tag)) +
                            " is not UTF-8");
  }
  if (std::holds_alternative<std::monostate>(from.value))
    return invalid_argument("the summary '" + from.tag + "' has no value");
  const auto* histogram = std::get_if<Histogram>(&from.value);
  if (histogram != nullptr && histogram->limits.size() != histogram->counts.size()) {
    return invalid_argument("the histogram '" + from.tag + "' has " +
                            std::to_string(histogram->limits.size()) + " limits but " +
                            std::to_string(histogram->counts.size()) + " counts");
  }
  const auto* tensor = std::get_if<TensorSummary>(&from.value);
  if (tensor != nullptr && !tensor->strings.empty() && !tensor->content.empty())
    return invalid_argument("the tensor '" + from.tag + "' has both texts and bytes");
  return {};
}

}  // namespace

Result<std::string> encode_summary_value(const SummaryValue& from) {
  if (Status status = check_value(from); !status.ok()) return status.error();
  std::string bytes;
  Builder<wire::Value> to(bytes);
  add_text(to, wire::Value::kTag, from.tag);
  if (const auto* scalar = std::get_if<float>(&from.value)) {
    to.add_float(wire::Value::kSimpleValue, *scalar);
  } else if (const auto* histogram = std::get_if<Histogram>(&from.value)) {
    to.add_message(wire::Value::kHistogram, encode_histogram(*histogram));
  } else if (const auto* image = std::get_if<ImageSummary>(&from.value)) {
    to.add_message(wire::Value::kImage, encode_image(*image));
  } else if (const auto* audio = std::get_if<AudioSummary>(&from.value)) {
    to.add_message(wire::Value::kAudio, encode_audio(*audio));
  } else if (const auto* text = std::get_if<std::string>(&from.value)) {
    add_tensor(to, text_tensor(*text));
    add_metadata(to, text_tensor(*text), /*newer=*/false);
  } else {
    const auto& tensor = std::get<TensorSummary>(from.value);
    add_tensor(to, tensor);
    add_metadata(to, tensor, /*newer=*/true);
  }
  return bytes;
}

namespace {

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

AnyValue decode_histogram(Message<wire::Histogram> from) {
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

ImageSummary decode_image(Message<wire::Image> from) {
  ImageSummary image;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Image::kHeight, pbf_wire_type::varint):
        image.height = from.get_int32();
        break;
      case tag_and_type(wire::Image::kWidth, pbf_wire_type::varint):
        image.width = from.get_int32();
        break;
      case tag_and_type(wire::Image::kColorspace, pbf_wire_type::varint):
        image.channels = from.get_int32();
        break;
      case tag_and_type(wire::Image::kEncoded, pbf_wire_type::length_delimited):
        image.encoded = from.get_bytes();
        break;
      default:
        from.skip();
    }
  }
  return image;
}

AudioSummary decode_audio(Message<wire::Audio> from) {
  AudioSummary audio;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Audio::kSampleRate, pbf_wire_type::fixed32):
        audio.sample_rate = from.get_float();
        break;
      case tag_and_type(wire::Audio::kChannels, pbf_wire_type::varint):
        audio.channels = from.get_int64();
        break;
      case tag_and_type(wire::Audio::kFrames, pbf_wire_type::varint):
        audio.frames = from.get_int64();
        break;
      case tag_and_type(wire::Audio::kEncoded, pbf_wire_type::length_delimited):
        audio.encoded = from.get_bytes();
        break;
      case tag_and_type(wire::Audio::kContentType, pbf_wire_type::length_delimited):
        audio.content_type = from.get_bytes();
        break;
      default:
        from.skip();
    }
  }
  return audio;
}

template <typename Number>
std::string content_of(const std::vector<Number>& numbers) {
  std::string content;
  for (const Number number : numbers) append_little_endian(content, number);
  return content;
}

TensorSummary decode_tensor(Message<wire::Tensor> from) {
  TensorSummary tensor{.type = TensorType()};
  tensor.strings.reserve(count_fields(from, wire::Tensor::kStrings));
  std::vector<float> floats;
  std::vector<double> doubles;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Tensor::kDtype, pbf_wire_type::varint):
        tensor.type = static_cast<TensorType>(from.get_enum());
        break;
      case tag_and_type(wire::Tensor::kShape, pbf_wire_type::length_delimited):
        tensor.shape = decode_shape(from.get_message());
        break;
      case tag_and_type(wire::Tensor::kContent, pbf_wire_type::length_delimited):
        tensor.content = from.get_bytes();
        break;
      case tag_and_type(wire::Tensor::kStrings, pbf_wire_type::length_delimited):
        tensor.strings.push_back(from.get_bytes());
        break;
      default:
        if (!(from.tag() == wire::Tensor::kFloats && read_floats(from, &floats)) &&
            !(from.tag() == wire::Tensor::kDoubles && read_doubles(from, &doubles))) {
          from.skip();
        }
    }
  }
  // Small tensors have their numbers in lists.
  if (tensor.type == TensorType::kFloat32 && !floats.empty()) tensor.content = content_of(floats);
  if (tensor.type == TensorType::kFloat64 && !doubles.empty()) tensor.content = content_of(doubles);
  return tensor;
}

// The single number or text of a tensor, which is a scalar or a text then; else the tensor.
AnyValue simplified(TensorSummary tensor) {
  const bool for_people = tensor.plugin.empty() || tensor.plugin == "text";
  if (tensor.type == TensorType::kString && tensor.strings.size() == 1 && for_people)
    return std::move(tensor.strings[0]);
  const bool number = tensor.plugin.empty() || tensor.plugin == "scalars";
  if (tensor.type == TensorType::kFloat32 && tensor.content.size() == sizeof(float) && number)
    return load_little_endian<float>(tensor.content.data());
  if (tensor.type == TensorType::kFloat64 && tensor.content.size() == sizeof(double) && number)
    return static_cast<float>(load_little_endian<double>(tensor.content.data()));
  // A damaged file may hold both.
  if (!tensor.strings.empty() && !tensor.content.empty()) return {};
  return tensor;
}

void decode_metadata(Message<wire::Metadata> from, TensorSummary* to) {
  while (from.next(wire::Metadata::kPluginData, pbf_wire_type::length_delimited)) {
    Message<wire::PluginData> plugin(from.get_message());
    while (plugin.next()) {
      switch (plugin.tag_and_type()) {
        case tag_and_type(wire::PluginData::kPluginName, pbf_wire_type::length_delimited):
          to->plugin = plugin.get_bytes();
          break;
        case tag_and_type(wire::PluginData::kContent, pbf_wire_type::length_delimited):
          to->plugin_content = plugin.get_bytes();
          break;
        default:
          plugin.skip();
      }
    }
  }
}

}  // namespace

SummaryValue decode_summary_value(Bytes bytes) {
  Message<wire::Value> from(view_of(bytes));
  SummaryValue value;
  std::optional<TensorSummary> tensor;
  TensorSummary metadata;
  while (from.next()) {
    switch (from.tag_and_type()) {
      case tag_and_type(wire::Value::kTag, pbf_wire_type::length_delimited):
        value.tag = from.get_bytes();
        break;
      case tag_and_type(wire::Value::kSimpleValue, pbf_wire_type::fixed32):
        value.value = from.get_float();
        break;
      case tag_and_type(wire::Value::kImage, pbf_wire_type::length_delimited):
        value.value = decode_image(from.get_message());
        break;
      case tag_and_type(wire::Value::kHistogram, pbf_wire_type::length_delimited):
        value.value = decode_histogram(from.get_message());
        break;
      case tag_and_type(wire::Value::kAudio, pbf_wire_type::length_delimited):
        value.value = decode_audio(from.get_message());
        break;
      case tag_and_type(wire::Value::kTensor, pbf_wire_type::length_delimited):
        tensor = decode_tensor(from.get_message());
        break;
      case tag_and_type(wire::Value::kMetadata, pbf_wire_type::length_delimited):
        decode_metadata(from.get_message(), &metadata);
        break;
      default:
        from.skip();
    }
  }
  if (!tensor) return value;
  tensor->plugin = std::move(metadata.plugin);
  tensor->plugin_content = std::move(metadata.plugin_content);
  value.value = simplified(*std::move(tensor));
  return value;
}

}  // namespace internal
}  // namespace muster::inline v0_1::formats
