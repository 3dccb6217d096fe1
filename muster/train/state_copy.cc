#include "muster/train/state_copy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

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

// A thread takes this much at a time, in bytes; a multiple of kPart.
constexpr size_t kBlock = size_t{256} << 10;
// It looks at what it has copied while that is in the nearest cache.
constexpr size_t kPart = size_t{16} << 10;

// Bytes to copy. Without `from` they are in their place.
struct Block {
  const std::byte* from;
  std::byte* to;
  size_t bytes;
  DType dtype;
};

// A number is infinite or NaN if all bits of its exponent are set. `count` numbers.
template <typename Bits>
inline __attribute__((always_inline)) bool all_finite_in(const std::byte* data, size_t count,
                                                         Bits exponent) {
  constexpr size_t kLanes = 64 / sizeof(Bits);
  typedef Bits Lanes __attribute__((vector_size(64), aligned(alignof(Bits)), may_alias));
  Lanes bad = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Lanes numbers = *reinterpret_cast<const Lanes*>(data + i * sizeof(Bits));
    bad |= reinterpret_cast<Lanes>((numbers & exponent) == exponent);
  }
  Bits any = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) any |= bad[lane];
  for (; i < count; ++i) {
    Bits number;
    std::memcpy(&number, data + i * sizeof(Bits), sizeof number);
    if ((number & exponent) == exponent) any = 1;
  }
  return any == 0;
}

MUSTER_COPY_CLONES bool finite_in_64(const std::byte* data, size_t bytes) {
  return all_finite_in<uint64_t>(data, bytes / 8, 0x7ff0000000000000U);
}
MUSTER_COPY_CLONES bool finite_in_32(const std::byte* data, size_t bytes) {
  return all_finite_in<uint32_t>(data, bytes / 4, 0x7f800000U);
}
MUSTER_COPY_CLONES bool finite_in_16(const std::byte* data, size_t bytes, uint16_t exponent) {
  return all_finite_in<uint16_t>(data, bytes / 2, exponent);
}

bool finite(const std::byte* data, size_t bytes, DType dtype) {
  switch (dtype) {
    case at::ScalarType::Float:
      return finite_in_32(data, bytes);
    case at::ScalarType::Double:
      return finite_in_64(data, bytes);
    case at::ScalarType::Half:
      return finite_in_16(data, bytes, 0x7c00U);
    case at::ScalarType::BFloat16:
      return finite_in_16(data, bytes, 0x7f80U);
    default:
      return true;
  }
}

// Returns whether what is there now is finite.
bool copy_block(const Block& block) {
  bool all = true;
  for (size_t at = 0; at < block.bytes; at += kPart) {
    const size_t bytes = std::min(kPart, block.bytes - at);
    if (block.from != nullptr) std::memcpy(block.to + at, block.from + at, bytes);
    all &= finite(block.to + at, bytes, block.dtype);
  }
  return all;
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
  constexpr int64_t kGrain = 4;  // blocks that are worth a thread
  at::parallel_for(0, static_cast<int64_t>(blocks.size()), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!copy_block(blocks[static_cast<size_t>(i)])) all_finite = false;
    }
  });
  all_finite_ = all_finite;
  return copies_;
}

}  // namespace muster::inline v0_1
