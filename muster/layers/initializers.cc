#include "muster/layers/initializers.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::initializers {
namespace {

// A standard normal that is cut at two has this standard deviation. Dividing by it gives back what
// the cut took away.
constexpr double kTruncatedStddev = 0.87962566103423978;

struct Fans {
  double in;
  double out;
};

Fans fans_of(const Shape& shape) {
  if (shape.empty()) return {1, 1};
  if (shape.size() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double receptive_field = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) receptive_field *= static_cast<double>(shape[i]);
  return {receptive_field * static_cast<double>(shape[shape.size() - 2]),
          receptive_field * static_cast<double>(shape.back())};
}

// Makes a tensor that `draw` fills in memory order.
template <typename Draw>
Tensor filled(const Shape& shape, DType dtype, Draw draw) {
  if (!is_weight_dtype(dtype)) {
    throw invalid_argument(fmt::format("cannot draw random {} values", dtype_name(dtype)),
                           "random initializers make variables of " + weight_dtype_names());
  }
  Tensor values = at::empty(shape, dtype);
  with_weight_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* data = values.data_ptr<T>();
    for (int64_t i = 0; i < values.numel(); ++i) data[i] = static_cast<T>(draw());
  });
  return values;
}

Tensor uniform(const Shape& shape, DType dtype, RandomKey key, double minimum, double maximum) {
  Random random(key);
  const double width = maximum - minimum;
  return filled(shape, dtype, [&] { return minimum + width * random.uniform(); });
}

Tensor truncated(const Shape& shape, DType dtype, RandomKey key, double mean, double stddev) {
  Random random(key);
  return filled(shape, dtype, [&] {
    double value = random.normal();
    while (std::abs(value) > 2) value = random.normal();
    return mean + stddev * value;
  });
}

void check_stddev(const char* initializer, double stddev) {
  if (std::isfinite(stddev) && stddev >= 0) return;
  throw invalid_argument(fmt::format("{}: stddev is {}", initializer, stddev),
                         "stddev must be finite and at least 0");
}

}  // namespace

Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }

Initializer constant(double value) {
  return [value](const Shape& shape, DType dtype, RandomKey) {
    return at::full(shape, value, at::TensorOptions(dtype));
  };
}

Initializer random_uniform(double minimum, double maximum) {
  if (!(minimum < maximum)) {
    throw invalid_argument(
        fmt::format("random_uniform: minimum is {}, maximum {}", minimum, maximum),
        "minimum must be below maximum");
  }
  return [=](const Shape& shape, DType dtype, RandomKey key) {
    return uniform(shape, dtype, key, minimum, maximum);
  };
}

Initializer random_normal(double mean, double stddev) {
  check_stddev("random_normal", stddev);
  return [=](const Shape& shape, DType dtype, RandomKey key) {
    Random random(key);
    return filled(shape, dtype, [&] { return mean + stddev * random.normal(); });
  };
}

Initializer truncated_normal(double mean, double stddev) {
  check_stddev("truncated_normal", stddev);
  return [=](const Shape& shape, DType dtype, RandomKey key) {
    return truncated(shape, dtype, key, mean, stddev);
  };
}

Initializer glorot_uniform() {
  return [](const Shape& shape, DType dtype, RandomKey key) {
    const Fans fans = fans_of(shape);
    const double limit = std::sqrt(6 / std::max(1.0, fans.in + fans.out));
    return uniform(shape, dtype, key, -limit, limit);
  };
}

Initializer glorot_normal() {
  return [](const Shape& shape, DType dtype, RandomKey key) {
    const Fans fans = fans_of(shape);
    const double stddev = std::sqrt(2 / std::max(1.0, fans.in + fans.out)) / kTruncatedStddev;
    return truncated(shape, dtype, key, 0, stddev);
  };
}

Initializer he_uniform() {
  return [](const Shape& shape, DType dtype, RandomKey key) {
    const double limit = std::sqrt(6 / std::max(1.0, fans_of(shape).in));
    return uniform(shape, dtype, key, -limit, limit);
  };
}

Initializer he_normal() {
  return [](const Shape& shape, DType dtype, RandomKey key) {
    const double stddev = std::sqrt(2 / std::max(1.0, fans_of(shape).in)) / kTruncatedStddev;
    return truncated(shape, dtype, key, 0, stddev);
  };
}

}  // namespace muster::inline v0_1::initializers
