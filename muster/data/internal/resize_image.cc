#include "muster/data/internal/resize_image.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

namespace muster::inline v0_1::data::internal {
namespace {

// Four channels at a time, or three and the number after them.
using Lanes = float __attribute__((vector_size(16)));
constexpr int64_t kLanes = 4;

Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

void store(float* to, Lanes lanes) { std::memcpy(to, &lanes, sizeof(lanes)); }

// Which inputs each output is made of, along one axis.
struct Taps {
  std::vector<int64_t> begin{};  // the first input, for each output
  std::vector<int64_t> count{};
  std::vector<float> weights{};  // `most` for each output
  int64_t most = 0;
  int64_t low = 0;  // all inputs lie in [low, high)
  int64_t high = 0;

  const float* weights_of(int64_t i) const { return weights.data() + i * most; }
};

Taps make_taps(int64_t in, double box_begin, double box_size, int64_t out, bool antialias,
               bool flip) {
  const double step = box_size / static_cast<double>(out);
  const double reach = antialias ? std::max(step, 1.0) : 1.0;
  // A border at 2.9999999 is one at 3.
  constexpr double kSlack = 1e-6;
  const auto first_pixel = static_cast<int64_t>(std::floor(box_begin + kSlack));
  const auto last_pixel = static_cast<int64_t>(std::ceil(box_begin + box_size - kSlack));
  const int64_t low = std::clamp<int64_t>(first_pixel, 0, in - 1);
  const int64_t high = std::clamp<int64_t>(last_pixel, low + 1, in);
  Taps taps;
  taps.most = static_cast<int64_t>(std::ceil(2 * reach)) + 2;
  taps.weights.assign(static_cast<size_t>(out * taps.most), 0.0f);
  taps.low = high;
  taps.high = low;
  for (int64_t o = 0; o < out; ++o) {
    const double centre = box_begin + (static_cast<double>(flip ? out - 1 - o : o) + 0.5) * step;
    const auto pixel = static_cast<int64_t>(std::floor(centre));
    int64_t begin = std::max(low, static_cast<int64_t>(std::floor(centre - reach + 0.5)));
    int64_t end = std::min(high, static_cast<int64_t>(std::floor(centre + reach + 0.5)));
    // Where a box is narrower than a pixel at the border of the image.
    if (begin >= end) {
      begin = std::clamp(pixel, low, high - 1);
      end = begin + 1;
    }
    const auto weight = [&](int64_t i) {
      return std::max(1 - std::abs(static_cast<double>(i) + 0.5 - centre) / reach, 0.0);
    };
    // A number with weight 0 is not read: it may be NaN.
    while (end - begin > 1 && weight(begin) == 0) ++begin;
    while (end - begin > 1 && weight(end - 1) == 0) --end;
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += weight(i);
    float* to = taps.weights.data() + o * taps.most;
    for (int64_t i = begin; i < end; ++i)
      to[i - begin] = sum > 0 ? static_cast<float>(weight(i) / sum) : 1.0f;
    taps.begin.push_back(begin);
    taps.count.push_back(end - begin);
    taps.low = std::min(taps.low, begin);
    taps.high = std::max(taps.high, end);
  }
  return taps;
}

// to[i] = the weighted sum of rows[k][i]; a few rows at a time, so that `to` is not written for
// each of them.
template <typename In>
void sum_rows(const In* const* rows, const float* weights, int64_t count, int64_t size, float* to) {
  const In* a = rows[0];
  const float wa = weights[0];
  int64_t k = 1;
  if (count >= 3) {
    const In* b = rows[1];
    const In* c = rows[2];
    const float wb = weights[1];
    const float wc = weights[2];
    for (int64_t i = 0; i < size; ++i)
      to[i] = wa * static_cast<float>(a[i]) + wb * static_cast<float>(b[i]) +
              wc * static_cast<float>(c[i]);
    k = 3;
  } else if (count == 2) {
    const In* b = rows[1];
    const float wb = weights[1];
    for (int64_t i = 0; i < size; ++i)
      to[i] = wa * static_cast<float>(a[i]) + wb * static_cast<float>(b[i]);
    k = 2;
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = wa * static_cast<float>(a[i]);
  }
  for (; k + 1 < count; k += 2) {
    const In* b = rows[k];
    const In* c = rows[k + 1];
    const float wb = weights[k];
    const float wc = weights[k + 1];
    for (int64_t i = 0; i < size; ++i)
      to[i] += wb * static_cast<float>(b[i]) + wc * static_cast<float>(c[i]);
  }
  if (k < count) {
    const In* b = rows[k];
    const float wb = weights[k];
    for (int64_t i = 0; i < size; ++i) to[i] += wb * static_cast<float>(b[i]);
  }
}

// One row of the output from a row of input pixels that begins with pixel taps.low. Both rows have
// space for kLanes - 1 numbers after their last.
void sum_columns(const float* row, const Taps& taps, int64_t channels, const float* scale,
                 const float* offset, float* to) {
  const auto outputs = static_cast<int64_t>(taps.begin.size());
  for (int64_t c = 0; c < channels; c += kLanes) {
    const Lanes factor = load(scale + c);
    const Lanes addend = load(offset + c);
    for (int64_t o = 0; o < outputs; ++o) {
      const float* from = row + (taps.begin[static_cast<size_t>(o)] - taps.low) * channels + c;
      const float* weights = taps.weights_of(o);
      const int64_t count = taps.count[static_cast<size_t>(o)];
      Lanes sum = load(from) * weights[0];
      for (int64_t k = 1; k < count; ++k) sum += load(from + k * channels) * weights[k];
      float* at = to + o * channels + c;
      if (c + kLanes <= channels || channels < kLanes) {
        // The number written beyond the pixel belongs to the next one, which comes later.
        store(at, sum * factor + addend);
      } else {
        const Lanes result = sum * factor + addend;
        std::memcpy(at, &result, static_cast<size_t>(channels - c) * sizeof(float));
      }
    }
  }
}

}  // namespace

template <typename In, typename Out>
void resample(const In* in, int64_t height, int64_t width, int64_t channels, const ResampleBox& box,
              Out* out, int64_t out_height, int64_t out_width, const ResampleOptions& options) {
  const Taps down = make_taps(height, box.top, box.height, out_height, options.antialias, false);
  const Taps across =
      make_taps(width, box.left, box.width, out_width, options.antialias, options.flip);
  std::vector<float> scale(static_cast<size_t>(channels + kLanes), 1.0f);
  std::vector<float> offset(static_cast<size_t>(channels + kLanes), 0.0f);
  if (options.scale != nullptr) std::copy_n(options.scale, channels, scale.begin());
  if (options.offset != nullptr) std::copy_n(options.offset, channels, offset.begin());

  const int64_t used = (across.high - across.low) * channels;
  const int64_t out_row = out_width * channels;
  std::vector<float> summed(static_cast<size_t>(used + kLanes));
  std::vector<float> finished(static_cast<size_t>(out_row + kLanes));
  std::vector<const In*> rows(static_cast<size_t>(down.most));
  for (int64_t y = 0; y < out_height; ++y) {
    const int64_t begin = down.begin[static_cast<size_t>(y)];
    const int64_t count = down.count[static_cast<size_t>(y)];
    for (int64_t k = 0; k < count; ++k)
      rows[static_cast<size_t>(k)] = in + ((begin + k) * width + across.low) * channels;
    sum_rows(rows.data(), down.weights_of(y), count, used, summed.data());
    sum_columns(summed.data(), across, channels, scale.data(), offset.data(), finished.data());
    Out* to = out + y * out_row;
    if constexpr (std::is_same_v<Out, float>) {
      std::copy_n(finished.data(), out_row, to);
    } else {
      for (int64_t i = 0; i < out_row; ++i)
        to[i] = static_cast<Out>(static_cast<int>(
            std::min(std::max(finished[static_cast<size_t>(i)], 0.0f), 255.0f) + 0.5f));
    }
  }
}

template void resample(const uint8_t*, int64_t, int64_t, int64_t, const ResampleBox&, uint8_t*,
                       int64_t, int64_t, const ResampleOptions&);
template void resample(const uint8_t*, int64_t, int64_t, int64_t, const ResampleBox&, float*,
                       int64_t, int64_t, const ResampleOptions&);
template void resample(const uint16_t*, int64_t, int64_t, int64_t, const ResampleBox&, float*,
                       int64_t, int64_t, const ResampleOptions&);
template void resample(const float*, int64_t, int64_t, int64_t, const ResampleBox&, float*, int64_t,
                       int64_t, const ResampleOptions&);

}  // namespace muster::inline v0_1::data::internal
