#include "muster/formats/internal/summary_codec.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "muster/base/strings.h"
#include "muster/formats/protobuf.h"

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

using AnyValue = decltype(SummaryValue::value);

// The part of the format that Muster writes and reads, by the format's field numbers.
namespace wire {
enum class Value : uint32_t {
  kTag = 1,          // string
  kSimpleValue = 2,  // float
  kImage = 4,        // Image
  kHistogram = 5,    // Histogram
  kAudio = 6,        // Audio
  kTensor = 8,       // Tensor
  kMetadata = 9,     // Metadata
};
enum class Metadata : uint32_t {
  kPluginData = 1,  // PluginData
  kDataClass = 4,   // enum
};
enum class PluginData : uint32_t {
  kPluginName = 1,  // string
  kContent = 2,     // bytes
};
enum class Image : uint32_t {
  kHeight = 1,      // int32
  kWidth = 2,       // int32
  kColorspace = 3,  // int32: how many channels there are
  kEncoded = 4,     // bytes
};
enum class Audio : uint32_t {
  kSampleRate = 1,   // float
  kChannels = 2,     // int64
  kFrames = 3,       // int64
  kEncoded = 4,      // bytes
  kContentType = 5,  // string
};
enum class Histogram : uint32_t {
  kMin = 1,  // double, as all that follow
  kMax = 2,
  kCount = 3,
  kSum = 4,
  kSumSquares = 5,
  kLimits = 6,  // repeated
  kCounts = 7,  // repeated
};
enum class Tensor : uint32_t {
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
  Builder<wire::Histogram> to;
  to.add_fixed(wire::Histogram::kMin, from.min);
  to.add_fixed(wire::Histogram::kMax, from.max);
  to.add_fixed(wire::Histogram::kCount, from.count);
  to.add_fixed(wire::Histogram::kSum, from.sum);
  to.add_fixed(wire::Histogram::kSumSquares, from.sum_squares);
  to.add_packed(wire::Histogram::kLimits, from.limits);
  to.add_packed(wire::Histogram::kCounts, from.counts);
  return to.take();
}

std::string encode_image(const ImageSummary& from) {
  Builder<wire::Image> to;
  to.add_varint(wire::Image::kHeight, from.height);
  to.add_varint(wire::Image::kWidth, from.width);
  to.add_varint(wire::Image::kColorspace, from.channels);
  to.add_bytes(wire::Image::kEncoded, from.encoded);
  return to.take();
}

std::string encode_audio(const AudioSummary& from) {
  Builder<wire::Audio> to;
  to.add_fixed(wire::Audio::kSampleRate, from.sample_rate);
  to.add_varint(wire::Audio::kChannels, from.channels);
  to.add_varint(wire::Audio::kFrames, from.frames);
  to.add_bytes(wire::Audio::kEncoded, from.encoded);
  to.add_bytes(wire::Audio::kContentType, from.content_type);
  return to.take();
}

void add_tensor(Builder<wire::Value>& to, const TensorSummary& from) {
  Builder<wire::Tensor> tensor;
  tensor.add_varint(wire::Tensor::kDtype, static_cast<int>(from.type));
  if (!from.shape.empty()) tensor.put_bytes(wire::Tensor::kShape, encode_shape(from.shape));
  tensor.add_bytes(wire::Tensor::kContent, from.content);
  for (const std::string& text : from.strings) tensor.put_bytes(wire::Tensor::kStrings, text);
  to.add_bytes(wire::Value::kTensor, tensor.bytes());
}

void add_metadata(Builder<wire::Value>& to, const TensorSummary& from, bool newer) {
  if (from.plugin.empty() && from.plugin_content.empty()) return;
  Builder<wire::PluginData> plugin;
  plugin.add_bytes(wire::PluginData::kPluginName, from.plugin);
  plugin.add_bytes(wire::PluginData::kContent, from.plugin_content);
  Builder<wire::Metadata> metadata;
  metadata.put_bytes(wire::Metadata::kPluginData, plugin.bytes());
  if (newer) metadata.put_varint(wire::Metadata::kDataClass, kTensorClass);
  to.put_bytes(wire::Value::kMetadata, metadata.bytes());
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
  Builder<wire::Value> to;
  to.add_bytes(wire::Value::kTag, from.tag);
  if (const auto* scalar = std::get_if<float>(&from.value)) {
    to.put_fixed(wire::Value::kSimpleValue, *scalar);
  } else if (const auto* histogram = std::get_if<Histogram>(&from.value)) {
    to.put_bytes(wire::Value::kHistogram, encode_histogram(*histogram));
  } else if (const auto* image = std::get_if<ImageSummary>(&from.value)) {
    to.put_bytes(wire::Value::kImage, encode_image(*image));
  } else if (const auto* audio = std::get_if<AudioSummary>(&from.value)) {
    to.put_bytes(wire::Value::kAudio, encode_audio(*audio));
  } else if (const auto* text = std::get_if<std::string>(&from.value)) {
    add_tensor(to, text_tensor(*text));
    add_metadata(to, text_tensor(*text), /*newer=*/false);
  } else {
    const auto& tensor = std::get<TensorSummary>(from.value);
    add_tensor(to, tensor);
    add_metadata(to, tensor, /*newer=*/true);
  }
  return to.take();
}

namespace {

AnyValue decode_histogram(Message<wire::Histogram> from) {
  Histogram histogram;
  while (from.next()) {
    from.read(wire::Histogram::kMin, &histogram.min);
    from.read(wire::Histogram::kMax, &histogram.max);
    from.read(wire::Histogram::kCount, &histogram.count);
    from.read(wire::Histogram::kSum, &histogram.sum);
    from.read(wire::Histogram::kSumSquares, &histogram.sum_squares);
    from.read_all(wire::Histogram::kLimits, &histogram.limits);
    from.read_all(wire::Histogram::kCounts, &histogram.counts);
  }
  // A damaged file may hold unequal lists: such a value counts as unknown.
  if (histogram.limits.size() != histogram.counts.size()) return {};
  return histogram;
}

ImageSummary decode_image(Message<wire::Image> from) {
  ImageSummary image;
  while (from.next()) {
    from.read(wire::Image::kHeight, &image.height);
    from.read(wire::Image::kWidth, &image.width);
    from.read(wire::Image::kColorspace, &image.channels);
    from.read(wire::Image::kEncoded, &image.encoded);
  }
  return image;
}

AudioSummary decode_audio(Message<wire::Audio> from) {
  AudioSummary audio;
  while (from.next()) {
    from.read(wire::Audio::kSampleRate, &audio.sample_rate);
    from.read(wire::Audio::kChannels, &audio.channels);
    from.read(wire::Audio::kFrames, &audio.frames);
    from.read(wire::Audio::kEncoded, &audio.encoded);
    from.read(wire::Audio::kContentType, &audio.content_type);
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
  Message<ShapeField> shape;
  Bytes text;
  while (from.next()) {
    from.read(wire::Tensor::kDtype, &tensor.type);
    if (from.read(wire::Tensor::kShape, &shape)) tensor.shape = decode_shape(shape);
    from.read(wire::Tensor::kContent, &tensor.content);
    from.read_all(wire::Tensor::kFloats, &floats);
    from.read_all(wire::Tensor::kDoubles, &doubles);
    if (from.read(wire::Tensor::kStrings, &text)) tensor.strings.emplace_back(text_of(text));
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
  for (Message<wire::PluginData> plugin; from.find(wire::Metadata::kPluginData, &plugin);) {
    while (plugin.next()) {
      plugin.read(wire::PluginData::kPluginName, &to->plugin);
      plugin.read(wire::PluginData::kContent, &to->plugin_content);
    }
  }
}

}  // namespace

SummaryValue decode_summary_value(Bytes bytes) {
  Message<wire::Value> from(bytes);
  SummaryValue value;
  std::optional<TensorSummary> tensor;
  TensorSummary metadata;
  float scalar = 0;
  Message<wire::Image> image;
  Message<wire::Histogram> histogram;
  Message<wire::Audio> audio;
  Message<wire::Tensor> numbers;
  Message<wire::Metadata> described;
  while (from.next()) {
    from.read(wire::Value::kTag, &value.tag);
    if (from.read(wire::Value::kSimpleValue, &scalar)) value.value = scalar;
    if (from.read(wire::Value::kImage, &image)) value.value = decode_image(image);
    if (from.read(wire::Value::kHistogram, &histogram)) value.value = decode_histogram(histogram);
    if (from.read(wire::Value::kAudio, &audio)) value.value = decode_audio(audio);
    if (from.read(wire::Value::kTensor, &numbers)) tensor = decode_tensor(numbers);
    if (from.read(wire::Value::kMetadata, &described)) decode_metadata(described, &metadata);
  }
  if (!tensor) return value;
  tensor->plugin = std::move(metadata.plugin);
  tensor->plugin_content = std::move(metadata.plugin_content);
  value.value = simplified(*std::move(tensor));
  return value;
}

}  // namespace internal
}  // namespace muster::inline v0_1::formats
