// The values of summaries, as TensorBoard stores them in events.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/export.h"

namespace muster::inline v0_1::formats {

// A distribution of values in buckets.
struct Histogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_squares = 0;
  // Bucket i holds counts[i] values in [limits[i - 1], limits[i]); as many limits as counts.
  std::vector<double> limits{};
  std::vector<double> counts{};
};

// An encoded image.
struct ImageSummary {
  int64_t height = 0;  // pixels
  int64_t width = 0;
  int channels = 0;       // 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA
  std::string encoded{};  // a PNG, or another format that browsers show
};

// An encoded sound.
struct AudioSummary {
  float sample_rate = 0;  // Hz
  int64_t channels = 0;
  int64_t frames = 0;  // samples of a channel
  std::string encoded{};
  std::string content_type{};  // "audio/wav"
};

// The element types of a TensorSummary, with the numbers of TensorFlow's DataType.
enum class TensorType {
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kFloat16 = 19,
};

// Returns "float32", or "type 23" for one that has no name here.
MUSTER_EXPORT std::string to_string(TensorType type);

// A tensor, which a plugin of TensorBoard may read, and the data for that plugin.
struct TensorSummary {
  std::string plugin{};          // "text", "hparams", "custom_scalars"; empty: none
  std::string plugin_content{};  // a message of that plugin
  TensorType type = TensorType::kFloat32;
  std::vector<int64_t> shape{};
  std::string content{};               // the elements, little-endian; empty for kString
  std::vector<std::string> strings{};  // the elements for kString
};

// One value under a tag: a point of a curve.
struct SummaryValue {
  std::string tag{};
  // A scalar, a histogram, a text, an image, a sound or a tensor; nothing for kinds that this
  // reader does not know. A tensor of a single number is a scalar, and a tensor of a single text
  // for people is a text.
  std::variant<std::monostate, float, Histogram, std::string, ImageSummary, AudioSummary,
               TensorSummary>
      value{};
};

}  // namespace muster::inline v0_1::formats
