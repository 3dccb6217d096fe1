#include "muster/layers/initializers.h"

#include <fmt/format.h>

#include <cmath>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::initializers {
namespace {

// A standard normal that is cut at two has this standard deviation. Dividing by it restores the
// part that the cut took away.
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

double chosen_fan(const Fans& fans, FanMode mode) {
  switch (mode) {
    case FanMode::kFanIn:
      return fans.in;
    case FanMode::kFanOut:
      return fans.out;
    case FanMode::kFanAvg:
      return (fans.in + fans.out) / 2;
  }
  throw internal_error(fmt::format("unknown fan mode {}", static_cast<int>(mode)));
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

Tensor normal(const Shape& shape, DType dtype, RandomKey key, double mean, double stddev) {
  Random random(key);
  return filled(shape, dtype, [&] { return mean + stddev * random.normal(); });
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

void check_gain(const char* initializer, double gain) {
  if (std::isfinite(gain)) return;
  throw invalid_argument(fmt::format("{}: gain is {}", initializer, gain), "gain must be finite");
}

// Sums in eight lanes, which a compiler may keep in vectors.
double dot(const double* a, const double* b, int64_t n) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) lanes[0] += a[i] * b[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// Makes `count` vectors of `length` numbers, one after another, orthonormal, by the modified
// Gram-Schmidt process. Unlike a library's QR its bits do not depend on the number of threads.
void make_orthonormal(double* vectors, int64_t count, int64_t length) {
  for (int64_t i = 0; i < count; ++i) {
    double* unit = vectors + i * length;
    const double scale = 1 / std::sqrt(dot(unit, unit, length));
    for (int64_t k = 0; k < length; ++k) unit[k] *= scale;
    for (int64_t j = i + 1; j < count; ++j) {
      double* other = vectors + j * length;
      const double share = dot(unit, other, length);
      for (int64_t k = 0; k < length; ++k) other[k] -= share * unit[k];
    }
  }
}

}  // namespace

Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }

Initializer constant(double value) {
  if (!std::isfinite(value)) {
    throw invalid_argument(fmt::format("constant: value is {}", value), "value must be finite");
  }
  return [value](const Shape& shape, DType dtype, RandomKey) {
    return at::full(shape, value, at::TensorOptions(dtype));
  };
}

Initializer constant(const Tensor& value) {
  if (!value.defined()) throw invalid_argument("constant: value is an undefined tensor");
  return [value = value.detach()](const Shape& shape, DType dtype, RandomKey) {
    if (value.sizes() != at::IntArrayRef(shape)) {
      throw invalid_argument(
          fmt::format("constant: value is {}, and the shape {}", describe(value), describe(shape)),
          "give a value of the variable's shape");
    }
    // A copy in any case: it is going to be trained.
    return value.to(at::kCPU, dtype).clone(at::MemoryFormat::Contiguous);
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
    return normal(shape, dtype, key, mean, stddev);
  };
}

Initializer truncated_normal(double mean, double stddev) {
  check_stddev("truncated_normal", stddev);
  return [=](const Shape& shape, DType dtype, RandomKey key) {
    return truncated(shape, dtype, key, mean, stddev);
  };
}

Initializer variance_scaling(VarianceScalingOptions options) {
  if (!std::isfinite(options.scale) || options.scale <= 0) {
    throw invalid_argument(fmt::format("variance_scaling: scale is {}", options.scale),
                           "scale must be finite and above 0");
  }
  return [options](const Shape& shape, DType dtype, RandomKey key) {
    const double fan = std::max(1.0, chosen_fan(fans_of(shape), options.mode));
    if (options.distribution == Distribution::kUniform) {
      const double limit = std::sqrt(3 * options.scale / fan);
      return uniform(shape, dtype, key, -limit, limit);
    }
    const double stddev = std::sqrt(options.scale / fan);
    if (options.distribution == Distribution::kUntruncatedNormal) {
      return normal(shape, dtype, key, 0, stddev);
    }
    return truncated(shape, dtype, key, 0, stddev / kTruncatedStddev);
  };
}

Initializer glorot_uniform() {
  return variance_scaling({.mode = FanMode::kFanAvg, .distribution = Distribution::kUniform});
}
Initializer glorot_normal() { return variance_scaling({.mode = FanMode::kFanAvg}); }
Initializer he_uniform() {
  return variance_scaling({.scale = 2, .distribution = Distribution::kUniform});
}
Initializer he_normal() { return variance_scaling({.scale = 2}); }
Initializer lecun_uniform() { return variance_scaling({.distribution = Distribution::kUniform}); }
Initializer lecun_normal() { return variance_scaling(); }

Initializer orthogonal(double gain) {
  check_gain("orthogonal", gain);
  return [gain](const Shape& shape, DType dtype, RandomKey key) {
    if (shape.size() < 2) {
      throw invalid_argument(fmt::format("orthogonal: the shape is {}", describe(shape)),
                             "the shape must have at least two axes");
    }
    const int64_t columns = shape.back();
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
    // The vectors are the columns of the taller of the matrix and its transpose.
    const int64_t length = std::max(rows, columns), count = std::min(rows, columns);
    Tensor drawn = normal({length, count}, dtype, key, 0, 1).to(kFloat64);
    Tensor vectors = drawn.t().contiguous();
    make_orthonormal(vectors.data_ptr<double>(), count, length);
    if (rows >= columns) vectors = vectors.t();
    return (vectors * gain).to(dtype).reshape(shape).contiguous();
  };
}

Initializer identity(double gain) {
  check_gain("identity", gain);
  return [gain](const Shape& shape, DType dtype, RandomKey) {
    if (shape.size() != 2) {
      throw invalid_argument(fmt::format("identity: the shape is {}", describe(shape)),
                             "the shape must have two axes");
    }
    return (at::eye(shape[0], shape[1], at::TensorOptions(kFloat64)) * gain).to(dtype);
  };
}

}  // namespace muster::inline v0_1::initializers
