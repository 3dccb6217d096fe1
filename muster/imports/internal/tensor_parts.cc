#include "muster/imports/internal/tensor_parts.h"

#include <algorithm>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {

Tensor slice_axis(const Tensor& x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  const int64_t size = x.size(axis);
  const auto clamped = [&](int64_t place, int64_t least, int64_t most) {
    return std::clamp(place < 0 ? place + size : place, least, most);
  };
  if (step > 0) {
    const int64_t from = clamped(begin, 0, size);
    return x.slice(axis, from, std::max(from, clamped(end, 0, size)), step);
  }
  // Backwards: the numbers from the end on, then every so many of them.
  const int64_t from = clamped(begin, -1, size - 1), to = clamped(end, -1, size - 1);
  const int64_t most = from - to;
  if (most <= 0) return x.slice(axis, 0, 0);
  return x.slice(axis, to + 1, from + 1).flip({axis}).slice(axis, 0, most, -step);
}

std::vector<int64_t> places_of(const std::string& mode, int64_t before, int64_t after,
                               int64_t size) {
  std::vector<int64_t> places;
  for (int64_t i = -before; i < size + after; ++i) {
    if (mode == "edge") {
      places.push_back(std::clamp<int64_t>(i, 0, size - 1));
    } else if (mode == "wrap") {
      places.push_back(((i % size) + size) % size);
    } else if (mode == "symmetric") {
      const int64_t at = ((i % (2 * size)) + 2 * size) % (2 * size);
      places.push_back(at < size ? at : 2 * size - 1 - at);
    } else {
      const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
      const int64_t at = ((i % period) + period) % period;
      places.push_back(at < size ? at : period - at);
    }
  }
  return places;
}

}  // namespace muster::inline v0_1::onnx::internal
