// Makes pictures of digits that look drawn by hand, for trying things out where no data set is at
// hand. Thread safety: pure functions.
//
// Each digit is a few strokes through control points, in several styles; the points are moved, the
// whole is warped, rotated, sheared, scaled and shifted, and drawn with a pen of random width,
// pressure and breaks. The same seed gives the same bytes on every machine: each image draws from
// its own key, and only operations that IEEE 754 defines exactly are used (build this file without
// contraction to FMA).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::app {

inline constexpr int kDigitSide = 28;
inline constexpr int kDigitPixels = kDigitSide * kDigitSide;

enum class DigitSet : uint64_t { kTrain = 0, kTest = 1 };

// The pixels row by row from the top, from 0 (background) to 255 (ink).
using DigitImage = std::array<uint8_t, kDigitPixels>;

// Returns the digit of an image. Every ten images in a row hold each digit once, in random order.
int digit_label(uint64_t seed, DigitSet set, uint64_t index);
DigitImage digit_image(uint64_t seed, DigitSet set, uint64_t index);

struct DigitOptions {
  std::string out{};  // the folder; made when missing
  uint64_t train = 60'000;
  uint64_t test = 10'000;
  uint64_t seed = 1;
  bool force = false;  // replace files that are not from these options
};

// Writes four files with the names of MNIST's, in IDX format, each whole or not at all; digits.json
// next to them describes them. It uses all cores. Returns false, having done nothing, if they exist
// already. Throws InvalidArgument if other files of these names exist, with ".gz" or without, and
// Error when the disk fails.
bool write_digits(const DigitOptions& options);

}  // namespace muster::app
