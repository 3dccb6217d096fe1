#include "muster/formats/wav.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "muster/base/error.h"

namespace muster::inline v0_1::formats {
namespace {

constexpr int64_t kBytesPerSample = 2;
constexpr uint32_t kHeaderBytes = 44;

void append(std::string& to, uint64_t value, int bytes) {
  for (int b = 0; b < bytes; ++b) to += static_cast<char>((value >> (8 * b)) & 0xff);
}

}  // namespace

Result<std::string> encode_wav(std::span<const float> samples, int64_t channels,
                               int64_t sample_rate) {
  constexpr int64_t kMost32 = std::numeric_limits<uint32_t>::max();
  if (channels < 1 || channels > std::numeric_limits<uint16_t>::max()) {
    return invalid_argument(
        fmt::format("encode_wav got channels = {}; it must be from 1 to 65535", channels));
  }
  if (sample_rate < 1 || sample_rate > kMost32) {
    return invalid_argument(fmt::format(
        "encode_wav got sample_rate = {}; it must be from 1 to {} Hz", sample_rate, kMost32));
  }
  const auto count = static_cast<int64_t>(samples.size());
  if (count % channels != 0) {
    return invalid_argument(
        fmt::format("encode_wav got {} samples; {} channels need a multiple", count, channels));
  }
  const int64_t bytes = count * kBytesPerSample;
  if (bytes > kMost32 - kHeaderBytes) {
    return invalid_argument(
        fmt::format("encode_wav got {} samples; a WAV file is smaller than 4 GiB", count));
  }
  std::string file = "RIFF";
  append(file, static_cast<uint64_t>(bytes) + kHeaderBytes - 8, 4);
  file += "WAVEfmt ";
  append(file, 16, 4);  // bytes of the format
  append(file, 1, 2);   // PCM
  append(file, static_cast<uint64_t>(channels), 2);
  append(file, static_cast<uint64_t>(sample_rate), 4);
  append(file, static_cast<uint64_t>(sample_rate * channels * kBytesPerSample), 4);
  append(file, static_cast<uint64_t>(channels * kBytesPerSample), 2);
  append(file, 8 * kBytesPerSample, 2);
  file += "data";
  append(file, static_cast<uint64_t>(bytes), 4);
  for (const float sample : samples) {
    const float within = std::isnan(sample) ? 0.0f : std::clamp(sample, -1.0f, 1.0f);
    append(file, static_cast<uint16_t>(std::lround(within * 32767.0f)), kBytesPerSample);
  }
  return file;
}

}  // namespace muster::inline v0_1::formats
