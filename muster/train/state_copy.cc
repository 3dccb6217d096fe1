#include "muster/train/state_copy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
// The loader takes the widest instructions that the machine has.
#define MUSTER_COPY_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MUSTER_COPY_CLONES
#endif

// A thread takes this much at a time, in bytes; a multiple of kLine.
constexpr size_t kBlock = size_t{256} << 10;
// A line of the caches, in bytes.
constexpr size_t kLine = 64;

// Bytes to copy. Without `from` they are in their place. `to` begins a line.
struct Block {
  const std::byte* from;
  std::byte* to;
  size_t bytes;
  DType dtype;
};

// Stores a line past the caches: they need not read it first, and keep what the next step needs.
inline __attribute__((always_inline)) void store_line(std::byte* to, const void* line) {
#if defined(__SSE2__)
  __m128i parts[kLine / sizeof(__m128i)];
  std::memcpy(parts, line, kLine);
  for (size_t i = 0; i < std::size(parts); ++i)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, parts[i]);
#else
  std::memcpy(to, line, kLine);
#endif
}

// Copies a block, and returns whether it is finite. A number is infinite or NaN if all bits of its
// exponent are set; `exponent` 0: every number is finite.
template <typename Bits>
inline __attribute__((always_inline)) bool copy_numbers(const Block& block, Bits exponent) {
  typedef Bits Lanes __attribute__((vector_size(kLine), aligned(alignof(Bits)), may_alias));
  const std::byte* const from = block.from != nullptr ? block.from : block.to;
  const Bits looks = exponent != 0 ? ~Bits{0} : Bits{0};
  Lanes bad = {};
  size_t at = 0;
  for (; at + kLine <= block.bytes; at += kLine) {
    const Lanes numbers = *reinterpret_cast<const Lanes*>(from + at);
    bad |= reinterpret_cast<Lanes>((numbers & exponent) == exponent);
    if (block.from != nullptr) store_line(block.to + at, &numbers);
  }
  Bits any = 0;
  for (size_t lane = 0; lane < kLine / sizeof(Bits); ++lane) any |= bad[lane];
  for (; at < block.bytes; at += sizeof(Bits)) {
    Bits number;
    std::memcpy(&number, from + at, sizeof number);
    if ((number & exponent) == exponent) any = 1;
    std::memcpy(block.to + at, &number, sizeof number);
  }
#if defined(__SSE2__)
  _mm_sfence();  // other threads see these stores from now on
#endif
  return (any & looks) == 0;
}

MUSTER_COPY_CLONES bool copy_64(const Block& block, uint64_t exponent) {
  return copy_numbers<uint64_t>(block, exponent);
}
MUSTER_COPY_CLONES bool copy_32(const Block& block, uint32_t exponent) {
  return copy_numbers<uint32_t>(block, exponent);
}
MUSTER_COPY_CLONES bool copy_16(const Block& block, uint16_t exponent) {
  return copy_numbers<uint16_t>(block, exponent);
}
MUSTER_COPY_CLONES bool copy_8(const Block& block) { return copy_numbers<uint8_t>(block, 0); }

// Returns whether what is there now is finite.
bool copy_block(const Block& block) {
  switch (block.dtype) {
    case at::ScalarType::Float:
      return copy_32(block, 0x7f800000U);
    case at::ScalarType::Double:
      return copy_64(block, 0x7ff0000000000000U);
    case at::ScalarType::Half:
      return copy_16(block, 0x7c00U);
    case at::ScalarType::BFloat16:
      return copy_16(block, 0x7f80U);
    default:
      return copy_8(block);
  }
}

// Calls `work` with parts of 0 to `count` on as many threads as an operation of LibTorch takes.
// at::parallel_for() would call it on this thread alone, as this is not compiled for OpenMP.
void on_all_threads(size_t count, const std::function<void(size_t begin, size_t end)>& work) {
  constexpr size_t kGrain = 4;  // blocks that are worth a thread
  const size_t threads = std::clamp<size_t>(count / kGrain, 1, at::get_num_threads());
  std::vector<std::jthread> others;
  for (size_t i = 1; i < threads; ++i)
    others.emplace_back(work, count * i / threads, count * (i + 1) / threads);
  work(0, count / threads);
}

bool is_free(const Tensor& copy, const Tensor& tensor) {
  return copy.use_count() == 1 && copy.storage().use_count() == 1 &&
         copy.scalar_type() == tensor.scalar_type() && copy.sizes() == tensor.sizes();
}

}  // namespace

std::map<std::string, Tensor> StateCopy::of(const std::map<std::string, Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  std::map<std::string, Tensor> before = std::exchange(copies_, {});
  std::vector<Block> blocks;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || tensor.layout() != at::kStrided) {
      copies_[name] = tensor;
      continue;
    }
    const auto known = before.find(name);
    Tensor copy = known != before.end() && is_free(known->second, tensor)
                      ? std::move(known->second)
                      : torch::empty(tensor.sizes(), at::dtype(tensor.scalar_type()));
    const bool plain = tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_neg();
    if (!plain) copy.copy_(tensor);
    const auto* from = plain ? static_cast<const std::byte*>(tensor.data_ptr()) : nullptr;
    auto* to = static_cast<std::byte*>(copy.data_ptr());
    for (size_t at = 0; at < copy.nbytes(); at += kBlock) {
      blocks.push_back({.from = plain ? from + at : nullptr,
                        .to = to + at,
                        .bytes = std::min(kBlock, copy.nbytes() - at),
                        .dtype = copy.scalar_type()});
    }
    copies_[name] = std::move(copy);
  }
  std::atomic<bool> all_finite = true;
  on_all_threads(blocks.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (!copy_block(blocks[i])) all_finite = false;
    }
  });
  all_finite_ = all_finite;
  return copies_;
}

}  // namespace muster::inline v0_1
