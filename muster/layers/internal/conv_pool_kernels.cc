#include "muster/layers/internal/conv_pool_kernels.h"

#include <cstring>
#include <vector>

#include "muster/base/cpu_features.h"

namespace muster::inline v0_1::internal {
namespace {

// A vector of filters. Accumulators stay in registers: eight in the forward, up to nine in the
// backward.
template <int kLanes>
struct Vectors {
  typedef float Float __attribute__((vector_size(kLanes * 4)));
  typedef int32_t Int __attribute__((vector_size(kLanes * 4)));
};

#define MUSTER_INLINE [[gnu::always_inline]] inline

// Says where the taps of a window lie, relative to its first value, in the order of the kernel's
// memory.
std::vector<int64_t> tap_offsets(const ConvPool& s) {
  std::vector<int64_t> offsets;
  for (int64_t a = 0; a < s.kernel_height; ++a)
    for (int64_t b = 0; b < s.kernel_width; ++b)
      for (int64_t c = 0; c < s.channels; ++c)
        offsets.push_back((a * s.width + b) * s.channels + c);
  return offsets;
}

template <int kLanes, int kBlocks>
MUSTER_INLINE void forward_pixel(const ConvPool& s, const int64_t* offsets, const float* window,
                                 const float* kernel, const float* bias, float* __restrict output,
                                 int32_t* __restrict choice) {
  using V = Vectors<kLanes>;
  const float* corners[4] = {window, window + s.channels, window + s.width * s.channels,
                             window + (s.width + 1) * s.channels};
  typename V::Float sums[kBlocks][4];
#pragma GCC unroll 2
  for (int block = 0; block < kBlocks; ++block) {
    typename V::Float start;
    std::memcpy(&start, bias + block * kLanes, sizeof(start));
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) sums[block][k] = start;
  }
  const int64_t taps = s.taps();
  for (int64_t t = 0; t < taps; ++t) {
    const float* weights = kernel + t * s.filters;
#pragma GCC unroll 2
    for (int block = 0; block < kBlocks; ++block) {
      typename V::Float w;
      std::memcpy(&w, weights + block * kLanes, sizeof(w));
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) sums[block][k] += corners[k][offsets[t]] * w;
    }
  }
  // As integers, positive floats keep their order, negative ones lie below zero (where relu shuts
  // them out) and NaN, its sign removed, above infinity. GCC splits comparisons of wide float
  // vectors into scalars; comparisons of integers it keeps.
  constexpr int32_t kInfinity = 0x7f800000;
  const typename V::Int magnitude = typename V::Int{} + 0x7fffffff;
#pragma GCC unroll 2
  for (int block = 0; block < kBlocks; ++block) {
    typename V::Int best = {};
    typename V::Int which = typename V::Int{} + ConvPool::kNone;
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      typename V::Int value;
      std::memcpy(&value, &sums[block][k], sizeof(value));
      const typename V::Int unsigned_value = value & magnitude;
      value = unsigned_value > kInfinity ? unsigned_value : value;
      which = value > best ? typename V::Int{} + k : which;
      best = value > best ? value : best;
    }
    std::memcpy(output + block * kLanes, &best, sizeof(best));
    if (choice) {
      std::memcpy(choice + block * kLanes, &which, sizeof(which));
    }
  }
}

template <int kLanes>
MUSTER_INLINE void forward(const ConvPool& s, const int64_t* offsets, int64_t n,
                           const float* images, const float* kernel, const float* bias,
                           float* output, int32_t* choice) {
  for (int64_t image = 0; image < n; ++image, images += s.input_size()) {
    for (int64_t i = 0; i < s.output_height(); ++i) {
      for (int64_t j = 0; j < s.output_width(); ++j) {
        const float* window = images + (2 * i * s.width + 2 * j) * s.channels;
        int64_t f = 0;
        for (; f + 2 * kLanes <= s.filters; f += 2 * kLanes) {
          forward_pixel<kLanes, 2>(s, offsets, window, kernel + f, bias + f, output + f,
                                   choice ? choice + f : nullptr);
        }
        for (; f < s.filters; f += kLanes) {
          forward_pixel<kLanes, 1>(s, offsets, window, kernel + f, bias + f, output + f,
                                   choice ? choice + f : nullptr);
        }
        output += s.filters;
        if (choice) choice += s.filters;
      }
    }
  }
}

template <typename Float>
MUSTER_INLINE void add_to(float* memory, const Float& value) {
  Float sum;
  std::memcpy(&sum, memory, sizeof(sum));
  sum += value;
  std::memcpy(memory, &sum, sizeof(sum));
}

// Gradients and choices of more values than this lie outside of the second-level cache. Then
// backward asks for those of the next image while it works on one: without, a batch of 256 images
// of 28x28 takes 1.7 times as long for each image as one of 64. In the cache it would cost a tenth.
constexpr int64_t kMostValuesInCache = 1 << 19;

// Works on one image, kLanes filters and kTaps taps. It keeps the sums of an image apart from the
// total, because shorter sums round less. The values of the next image are `ahead`
// values further on.
template <int kLanes, bool kPrefetches, int kTaps>
MUSTER_INLINE void backward_image(const ConvPool& s, const int64_t* offsets, const float* image,
                                  const float* output_gradient, const int32_t* choice,
                                  float* kernel_gradient, float* bias_gradient, int64_t ahead) {
  using V = Vectors<kLanes>;
  const int64_t below = s.width * s.channels;
  typename V::Float sums[kTaps] = {};
  typename V::Float bias_sum = {};
  for (int64_t i = 0; i < s.output_height(); ++i) {
    const float* window = image + 2 * i * below;
    for (int64_t j = 0; j < s.output_width(); ++j, window += 2 * s.channels) {
      typename V::Float gradient;
      std::memcpy(&gradient, output_gradient, sizeof(gradient));
      typename V::Int which;
      std::memcpy(&which, choice, sizeof(which));
      if constexpr (kPrefetches) {
        __builtin_prefetch(output_gradient + ahead, /*rw=*/0, /*locality=*/1);
        __builtin_prefetch(choice + ahead, /*rw=*/0, /*locality=*/1);
      }
      output_gradient += s.filters;
      choice += s.filters;
      const typename V::Float none = {};
      typename V::Float parts[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) parts[k] = which == k ? gradient : none;
      bias_sum += which == ConvPool::kNone ? none : gradient;
#pragma GCC unroll 9
      for (int t = 0; t < kTaps; ++t) {
        const float* value = window + offsets[t];
        sums[t] += value[0] * parts[0];
        sums[t] += value[s.channels] * parts[1];
        sums[t] += value[below] * parts[2];
        sums[t] += value[below + s.channels] * parts[3];
      }
    }
  }
#pragma GCC unroll 9
  for (int t = 0; t < kTaps; ++t) add_to(kernel_gradient + t * s.filters, sums[t]);
  if (bias_gradient) add_to(bias_gradient, bias_sum);
}

template <int kLanes, bool kPrefetches>
MUSTER_INLINE void backward_images(const ConvPool& s, const int64_t* offsets, int64_t n,
                                   const float* images, const float* output_gradient,
                                   const int32_t* choice, float* kernel_gradient,
                                   float* bias_gradient) {
  const int64_t taps = s.taps();
  for (int64_t image = 0; image < n; ++image) {
    const int64_t ahead = image + 1 < n ? s.output_size() : 0;
    for (int64_t f = 0; f < s.filters; f += kLanes) {
      const float* gradient = output_gradient + f;
      float* bias = bias_gradient + f;  // with the first group of taps
      int64_t t = 0;
      for (; t + 9 <= taps; t += 9, bias = nullptr) {
        backward_image<kLanes, kPrefetches, 9>(s, offsets + t, images, gradient, choice + f,
                                               kernel_gradient + t * s.filters + f, bias, ahead);
      }
      for (; t + 3 <= taps; t += 3, bias = nullptr) {
        backward_image<kLanes, kPrefetches, 3>(s, offsets + t, images, gradient, choice + f,
                                               kernel_gradient + t * s.filters + f, bias, ahead);
      }
      for (; t < taps; ++t, bias = nullptr) {
        backward_image<kLanes, kPrefetches, 1>(s, offsets + t, images, gradient, choice + f,
                                               kernel_gradient + t * s.filters + f, bias, ahead);
      }
    }
    images += s.input_size();
    output_gradient += s.output_size();
    choice += s.output_size();
  }
}

template <int kLanes>
MUSTER_INLINE void backward(const ConvPool& s, const int64_t* offsets, int64_t n,
                            const float* images, const float* output_gradient,
                            const int32_t* choice, float* kernel_gradient, float* bias_gradient) {
  if (n * s.output_size() > kMostValuesInCache) {
    backward_images<kLanes, true>(s, offsets, n, images, output_gradient, choice, kernel_gradient,
                                  bias_gradient);
  } else {
    backward_images<kLanes, false>(s, offsets, n, images, output_gradient, choice, kernel_gradient,
                                   bias_gradient);
  }
}

#if defined(__x86_64__)
#define MUSTER_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#define MUSTER_AVX2 __attribute__((target("avx2,fma")))

MUSTER_AVX512 void forward_avx512(const ConvPool& s, const int64_t* offsets, int64_t n,
                                  const float* images, const float* kernel, const float* bias,
                                  float* output, int32_t* choice) {
  forward<16>(s, offsets, n, images, kernel, bias, output, choice);
}
MUSTER_AVX2 void forward_avx2(const ConvPool& s, const int64_t* offsets, int64_t n,
                              const float* images, const float* kernel, const float* bias,
                              float* output, int32_t* choice) {
  forward<8>(s, offsets, n, images, kernel, bias, output, choice);
}
MUSTER_AVX512 void backward_avx512(const ConvPool& s, const int64_t* offsets, int64_t n,
                                   const float* images, const float* output_gradient,
                                   const int32_t* choice, float* kernel_gradient,
                                   float* bias_gradient) {
  backward<16>(s, offsets, n, images, output_gradient, choice, kernel_gradient, bias_gradient);
}
MUSTER_AVX2 void backward_avx2(const ConvPool& s, const int64_t* offsets, int64_t n,
                               const float* images, const float* output_gradient,
                               const int32_t* choice, float* kernel_gradient,
                               float* bias_gradient) {
  backward<8>(s, offsets, n, images, output_gradient, choice, kernel_gradient, bias_gradient);
}
#endif

}  // namespace

void conv_pool_forward(const ConvPool& shape, int64_t n, const float* images, const float* kernel,
                       const float* bias, float* output, int32_t* choice) {
  const std::vector<int64_t> offsets = tap_offsets(shape);
#if defined(__x86_64__)
  if (cpu_features().avx512) {
    return forward_avx512(shape, offsets.data(), n, images, kernel, bias, output, choice);
  }
  if (cpu_features().avx2) {
    return forward_avx2(shape, offsets.data(), n, images, kernel, bias, output, choice);
  }
#endif
  forward<4>(shape, offsets.data(), n, images, kernel, bias, output, choice);
}

void conv_pool_backward(const ConvPool& shape, int64_t n, const float* images,
                        const float* output_gradient, const int32_t* choice, float* kernel_gradient,
                        float* bias_gradient) {
  const std::vector<int64_t> offsets = tap_offsets(shape);
#if defined(__x86_64__)
  if (cpu_features().avx512) {
    return backward_avx512(shape, offsets.data(), n, images, output_gradient, choice,
                           kernel_gradient, bias_gradient);
  }
  if (cpu_features().avx2) {
    return backward_avx2(shape, offsets.data(), n, images, output_gradient, choice, kernel_gradient,
                         bias_gradient);
  }
#endif
  backward<4>(shape, offsets.data(), n, images, output_gradient, choice, kernel_gradient,
              bias_gradient);
}

}  // namespace muster::inline v0_1::internal
