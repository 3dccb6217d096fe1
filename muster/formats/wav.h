// Sound as a WAV file. Thread safety: a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// Returns a WAV file of 16-bit PCM. `samples` are in [-1, 1] (larger ones are cut off, NaN is
// silence), the channels of a frame side by side. Returns InvalidArgument unless there are 1 to
// 65535 channels, whole frames, a rate of 1 to 4294967295 Hz, and less than 4 GiB.
Result<std::string> encode_wav(std::span<const float> samples, int64_t channels,
                               int64_t sample_rate);

}  // namespace muster::inline v0_1::formats
