#include "muster/layers/internal/lstm_gru_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "muster/base/cpu_features.h"

namespace muster::inline v0_1::internal {
namespace {

#define MUSTER_INLINE [[gnu::always_inline]] inline

// The operations of a step on numbers: here one double at a time.
struct Scalars {
  using T = double;
  using Value = double;
  static constexpr int64_t kLanes = 1;
  MUSTER_INLINE static Value load(const T* from, int64_t) { return *from; }
  MUSTER_INLINE static void store(T* to, const Value& value, int64_t) { *to = value; }
  MUSTER_INLINE static Value sigmoid(const Value& x) { return 1 / (1 + std::exp(-x)); }
  MUSTER_INLINE static Value tanh(const Value& x) { return std::tanh(x); }
};

// Several floats at a time.
template <int kWidth>
struct Vectors {
  using T = float;
  typedef float Value __attribute__((vector_size(kWidth * 4)));
  typedef int32_t Int __attribute__((vector_size(kWidth * 4)));
  static constexpr int64_t kLanes = kWidth;

  MUSTER_INLINE static Value load(const T* from, int64_t lanes) {
    Value value = {};
    if (lanes == kLanes) {
      std::memcpy(&value, from, sizeof(value));
    } else {
      std::memcpy(&value, from, static_cast<size_t>(lanes) * sizeof(T));
    }
    return value;
  }
  MUSTER_INLINE static void store(T* to, const Value& value, int64_t lanes) {
    if (lanes == kLanes) {
      std::memcpy(to, &value, sizeof(value));
    } else {
      std::memcpy(to, &value, static_cast<size_t>(lanes) * sizeof(T));
    }
  }

  MUSTER_INLINE static Value as_value(const Int& bits) {
    Value value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  MUSTER_INLINE static Int as_bits(const Value& value) {
    Int bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }
  MUSTER_INLINE static Value choose(const Int& condition, const Value& yes, const Value& no) {
    return as_value((condition & as_bits(yes)) | (~condition & as_bits(no)));
  }

  // exp(-x) for x of no sign, given as its bits. NaN stays NaN; from 87 on it is exp(-87), since
  // smaller values have no use here. It compares integers, which order like positive floats: GCC
  // splits comparisons of wide float vectors. The polynomial is Cephes's for exp between -ln(2) / 2
  // and ln(2) / 2.
  MUSTER_INLINE static Value exp_of_minus(Int magnitude) {
    constexpr int32_t kInfinity = 0x7f800000, kLast = 0x42ae0000;  // of 87
    const Int clamp = (magnitude > kLast) & (magnitude <= kInfinity);
    magnitude = (clamp & kLast) | (~clamp & magnitude);
    const Value x = -as_value(magnitude);
    constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
    const Value shifted = x * 1.44269504f + kShift;
    const Value whole = shifted - kShift;
    const Value rest = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
    Value y = rest * 1.9875691500e-4f + 1.3981999507e-3f;
    y = y * rest + 8.3334519073e-3f;
    y = y * rest + 4.1665795894e-2f;
    y = y * rest + 1.6666665459e-1f;
    y = y * rest + 5.0000001201e-1f;
    y = y * (rest * rest) + rest + 1.0f;
    const Int power = (as_bits(shifted) - 0x4b400000 + 127) << 23;
    return y * as_value(power);
  }

  MUSTER_INLINE static Value sigmoid(const Value& x) {
    const Int bits = as_bits(x);
    const Value e = exp_of_minus(bits & 0x7fffffff);
    const Value one = Value{} + 1.0f;
    return choose(bits >> 31, e, one) / (one + e);
  }
  MUSTER_INLINE static Value tanh(const Value& x) {
    const Int bits = as_bits(x);
    const Int magnitude = bits & 0x7fffffff;
    const Value size = as_value(magnitude);
    const Value e = exp_of_minus(as_bits(size + size));
    const Value one = Value{} + 1.0f;
    const Value large = (one - e) / (one + e);
    // There 1 - e would lose digits; the polynomial is Cephes's for tanh below 0.625.
    const Value square = size * size;
    Value y = square * -5.70498872745e-3f + 2.06390887954e-2f;
    y = y * square - 5.37397155531e-2f;
    y = y * square + 1.33314422036e-1f;
    y = y * square - 3.33332819422e-1f;
    const Value small = y * square * size + size;
    const Value result = choose(magnitude < 0x3f200000, small, large);
    return as_value(as_bits(result) | (bits & static_cast<int32_t>(0x80000000)));
  }
};

// Calls use(j, lanes) for the units of a row, as many at a time as there are lanes.
template <typename Ops, typename Use>
MUSTER_INLINE void for_units(int64_t units, Use use) {
  int64_t j = 0;
  for (; j + Ops::kLanes <= units; j += Ops::kLanes) use(j, Ops::kLanes);
  if (j < units) use(j, units - j);
}

template <typename T>
MUSTER_INLINE void copy(const T* from, T* to, int64_t n) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
}

template <typename Ops>
MUSTER_INLINE void compute_row(const LstmForward<typename Ops::T>& s, int64_t row) {
  const int64_t units = s.units, at = row * units;
  if (s.counts != nullptr && !s.counts[row]) {
    copy(s.cell_before + at, s.cell + at, units);
    copy(s.output_before + at, s.output + at, units);
    return;
  }
  typename Ops::T* gates = s.gates + 4 * at;
  for_units<Ops>(
      units, [&](int64_t j, int64_t lanes) __attribute__((always_inline)) {
        const auto i = Ops::sigmoid(Ops::load(gates + j, lanes));
        const auto f = Ops::sigmoid(Ops::load(gates + units + j, lanes));
        const auto g = Ops::tanh(Ops::load(gates + 2 * units + j, lanes));
        const auto o = Ops::sigmoid(Ops::load(gates + 3 * units + j, lanes));
        const typename Ops::Value cell = f * Ops::load(s.cell_before + at + j, lanes) + i * g;
        const auto tanh = Ops::tanh(cell);
        Ops::store(gates + j, i, lanes);
        Ops::store(gates + units + j, f, lanes);
        Ops::store(gates + 2 * units + j, g, lanes);
        Ops::store(gates + 3 * units + j, o, lanes);
        Ops::store(s.cell + at + j, cell, lanes);
        Ops::store(s.cell_tanh + at + j, tanh, lanes);
        Ops::store(s.output + at + j, o * tanh, lanes);
      });
}

template <typename Ops>
MUSTER_INLINE typename Ops::Value sum_of(const typename Ops::T* one, const typename Ops::T* other,
                                         int64_t at, int64_t lanes) {
  const typename Ops::Value first = Ops::load(one + at, lanes);
  return other == nullptr ? first : first + Ops::load(other + at, lanes);
}

// A row that does not count: its gradient passes the step by, and its sums get none.
template <typename Ops>
MUSTER_INLINE void pass_by(typename Ops::T* later, const typename Ops::T* output, int64_t units,
                           int64_t at) {
  for_units<Ops>(
      units, [&](int64_t j, int64_t lanes) __attribute__((always_inline)) {
        Ops::store(later + at + j, sum_of<Ops>(later, output, at + j, lanes), lanes);
      });
}

template <typename Ops>
MUSTER_INLINE void compute_row(const LstmBackward<typename Ops::T>& s, int64_t row) {
  const int64_t units = s.units, at = row * units;
  typename Ops::T* sums = s.sum_gradients + 4 * at;
  if (s.counts != nullptr && !s.counts[row]) {
    pass_by<Ops>(s.later_gradient, s.output_gradient, units, at);
    std::fill(sums, sums + 4 * units, typename Ops::T{0});
    return;
  }
  const typename Ops::T* gates = s.gates + 4 * at;
  using Value = typename Ops::Value;
  for_units<Ops>(
      units, [&](int64_t j, int64_t lanes) __attribute__((always_inline)) {
        const Value i = Ops::load(gates + j, lanes), f = Ops::load(gates + units + j, lanes);
        const Value g = Ops::load(gates + 2 * units + j, lanes);
        const Value o = Ops::load(gates + 3 * units + j, lanes);
        const Value tanh = Ops::load(s.cell_tanh + at + j, lanes);
        const Value dh = sum_of<Ops>(s.later_gradient, s.output_gradient, at + j, lanes);
        const Value dc = Ops::load(s.cell_gradient + at + j, lanes) + dh * o * (1 - tanh * tanh);
        Ops::store(sums + j, dc * g * i * (1 - i), lanes);
        Ops::store(sums + units + j, dc * Ops::load(s.cell_before + at + j, lanes) * f * (1 - f),
                   lanes);
        Ops::store(sums + 2 * units + j, dc * i * (1 - g * g), lanes);
        Ops::store(sums + 3 * units + j, dh * tanh * o * (1 - o), lanes);
        Ops::store(s.cell_gradient + at + j, dc * f, lanes);
        Ops::store(s.later_gradient + at + j, Value{}, lanes);
      });
}

template <typename Ops>
MUSTER_INLINE void compute_row(const GruForward<typename Ops::T>& s, int64_t row) {
  const int64_t units = s.units, at = row * units;
  if (s.counts != nullptr && !s.counts[row]) {
    copy(s.output_before + at, s.output + at, units);
    return;
  }
  const typename Ops::T *inputs = s.input_sums + 3 * at, *states = s.state_sums + 3 * at;
  typename Ops::T* gates = s.gates + 4 * at;
  using Value = typename Ops::Value;
  for_units<Ops>(
      units, [&](int64_t j, int64_t lanes) __attribute__((always_inline)) {
        const Value z = Ops::sigmoid(Ops::load(inputs + j, lanes) + Ops::load(states + j, lanes));
        const Value r = Ops::sigmoid(Ops::load(inputs + units + j, lanes) +
                                     Ops::load(states + units + j, lanes));
        const Value state = Ops::load(states + 2 * units + j, lanes);
        const Value h = Ops::tanh(Ops::load(inputs + 2 * units + j, lanes) + r * state);
        const Value before = Ops::load(s.output_before + at + j, lanes);
        Ops::store(gates + j, z, lanes);
        Ops::store(gates + units + j, r, lanes);
        Ops::store(gates + 2 * units + j, h, lanes);
        Ops::store(gates + 3 * units + j, state, lanes);
        Ops::store(s.output + at + j, z * before + (1 - z) * h, lanes);
      });
}

template <typename Ops>
MUSTER_INLINE void compute_row(const GruBackward<typename Ops::T>& s, int64_t row) {
  const int64_t units = s.units, at = row * units;
  typename Ops::T *inputs = s.input_sum_gradients + 3 * at,
                  *states = s.state_sum_gradients + 3 * at;
  if (s.counts != nullptr && !s.counts[row]) {
    pass_by<Ops>(s.later_gradient, s.output_gradient, units, at);
    std::fill(inputs, inputs + 3 * units, typename Ops::T{0});
    std::fill(states, states + 3 * units, typename Ops::T{0});
    return;
  }
  const typename Ops::T* gates = s.gates + 4 * at;
  using Value = typename Ops::Value;
  for_units<Ops>(
      units, [&](int64_t j, int64_t lanes) __attribute__((always_inline)) {
        const Value z = Ops::load(gates + j, lanes), r = Ops::load(gates + units + j, lanes);
        const Value h = Ops::load(gates + 2 * units + j, lanes);
        const Value before = Ops::load(s.output_before + at + j, lanes);
        const Value dy = sum_of<Ops>(s.later_gradient, s.output_gradient, at + j, lanes);
        const Value dz = dy * (before - h) * z * (1 - z);
        const Value dh = dy * (1 - z) * (1 - h * h);
        const Value dr = dh * Ops::load(gates + 3 * units + j, lanes) * r * (1 - r);
        Ops::store(inputs + j, dz, lanes);
        Ops::store(states + j, dz, lanes);
        Ops::store(inputs + units + j, dr, lanes);
        Ops::store(states + units + j, dr, lanes);
        Ops::store(inputs + 2 * units + j, dh, lanes);
        Ops::store(states + 2 * units + j, dh * r, lanes);
        Ops::store(s.later_gradient + at + j, dy * z, lanes);
      });
}

template <typename Ops, typename Step>
MUSTER_INLINE void compute_with(const Step& step, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) compute_row<Ops>(step, row);
}

#if defined(__x86_64__)
template <typename Step>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))) void compute_avx512(
    const Step& step, int64_t begin, int64_t end) {
  compute_with<Vectors<16>>(step, begin, end);
}
template <typename Step>
__attribute__((target("avx2,fma"))) void compute_avx2(const Step& step, int64_t begin,
                                                      int64_t end) {
  compute_with<Vectors<8>>(step, begin, end);
}
#endif

template <template <typename> typename Step>
void compute_on_this_core(const Step<float>& step, int64_t begin, int64_t end) {
#if defined(__x86_64__)
  if (cpu_features().avx512) {
    return compute_avx512(step, begin, end);
  }
  if (cpu_features().avx2) {
    return compute_avx2(step, begin, end);
  }
#endif
  compute_with<Vectors<4>>(step, begin, end);
}

template <template <typename> typename Step>
void compute_on_this_core(const Step<double>& step, int64_t begin, int64_t end) {
  compute_with<Scalars>(step, begin, end);
}

}  // namespace

template <typename Step>
void compute_rows(const Step& step, int64_t begin, int64_t end) {
  compute_on_this_core(step, begin, end);
}

template void compute_rows(const LstmForward<float>&, int64_t, int64_t);
template void compute_rows(const LstmForward<double>&, int64_t, int64_t);
template void compute_rows(const LstmBackward<float>&, int64_t, int64_t);
template void compute_rows(const LstmBackward<double>&, int64_t, int64_t);
template void compute_rows(const GruForward<float>&, int64_t, int64_t);
template void compute_rows(const GruForward<double>&, int64_t, int64_t);
template void compute_rows(const GruBackward<float>&, int64_t, int64_t);
template void compute_rows(const GruBackward<double>&, int64_t, int64_t);

}  // namespace muster::inline v0_1::internal
