#include "muster/train/state_copy.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "muster/base/crc32c.h"
#include "muster/checkpoint/checkpoint_memory.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/checkpoint_writer.h"

namespace muster::inline v0_1 {
namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
// The loader takes the widest instructions that the machine has.
#define MUSTER_COPY_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MUSTER_COPY_CLONES
#endif

// A line of the caches, in bytes.
constexpr size_t kLine = 64;
// The checksum of this much is computed while it is in the nearest cache, in bytes: a multiple of
// kLine, and what crc32c() takes in one round.
constexpr size_t kNear = 6144;
// A thread takes this much at a time, in bytes.
constexpr size_t kBlock = 42 * kNear;
// So many blocks of a tensor have a checksum of their own: 16 MB, as a reader of some rows of a
// tensor in parts must read and verify the pieces that contain them.
constexpr size_t kBlocksOfPiece = 65;

// Bytes to copy. Without `from` they are in their place. `to` begins a line, unless the block is
// shorter than a line.
struct Block {
  size_t tensor;  // the number of their tensor
  size_t piece;   // the number of their piece of it
  const std::byte* from;
  std::byte* to;
  size_t bytes;
  DType dtype;
};

// The checksum of some blocks of a piece of a tensor that follow each other.
struct Sum {
  size_t tensor = 0;
  size_t piece = 0;
  uint32_t crc = 0;
  size_t bytes = 0;
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

// Copies a block, and returns whether it is finite: whether no number has all bits of `exponent`;
// 0: every number is finite.
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

// The bits of the exponent of each kind of number: a number is infinite or NaN if all are set.
constexpr uint64_t kDoubleExponent = 0x7ff0000000000000U;
constexpr uint32_t kFloatExponent = 0x7f800000U;
constexpr uint16_t kHalfExponent = 0x7c00U;
constexpr uint16_t kBfloatExponent = 0x7f80U;

// Returns whether what is there now is finite.
bool copy_piece(const Block& block) {
  switch (block.dtype) {
    case at::ScalarType::Float:
      return copy_32(block, kFloatExponent);
    case at::ScalarType::Double:
      return copy_64(block, kDoubleExponent);
    case at::ScalarType::Half:
      return copy_16(block, kHalfExponent);
    case at::ScalarType::BFloat16:
      return copy_16(block, kBfloatExponent);
    default:
      return copy_8(block);
  }
}

// Returns whether the block is finite, and continues the checksum of what is before it.
bool copy_block(const Block& block, uint32_t* crc) {
  bool finite = true;
  for (size_t at = 0; at < block.bytes; at += kNear) {
    Block piece = block;
    piece.bytes = std::min(kNear, block.bytes - at);
    piece.to += at;
    if (piece.from != nullptr) piece.from += at;
    finite &= copy_piece(piece);
    *crc = extend_crc32c(*crc, {piece.from != nullptr ? piece.from : piece.to, piece.bytes});
  }
  return finite;
}

// Other threads see the stores of this one from now on.
void end_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
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

std::span<std::byte> StateCopy::make_room(const std::map<std::string, Tensor>& tensors) {
  if (touches_.joinable()) touches_.join();
  std::map<std::string, Tensor> before = std::exchange(copies_, {});
  std::map<std::string, TensorSpec> missing;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || tensor.layout() != at::kStrided) {
      copies_[name] = tensor;
      continue;
    }
    const auto known = before.find(name);
    if (known != before.end() && is_free(known->second, tensor)) {
      copies_[name] = std::move(known->second);
    } else {
      missing[name] = {.shape = tensor.sizes().vec(), .dtype = tensor.scalar_type()};
    }
  }
  before.clear();
  std::map<std::string, Tensor> made;
  if (!missing.empty()) made = checkpoint_memory(missing);
  const std::span<std::byte> memory = memory_of(made);
  copies_.merge(made);
  return memory;
}

void StateCopy::prepare(const std::map<std::string, Tensor>& tensors) {
  std::span<std::byte> memory;
  try {
    memory = make_room(tensors);
  } catch (const std::bad_alloc&) {
    return;  // of() throws it
  }
  touches_ = std::jthread([memory] {
    internal::yield_to_steps();
    constexpr size_t kPage = 4096;
    for (size_t at = 0; at < memory.size(); at += kPage)
      *static_cast<volatile std::byte*>(memory.data() + at) = std::byte{0};
  });
}

std::map<std::string, Tensor> StateCopy::of(const std::map<std::string, Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  make_room(tensors);
  std::vector<Tensor> copied;
  std::vector<Block> blocks;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined() || tensor.layout() != at::kStrided) continue;
    const Tensor& copy = copies_.at(name);
    const bool plain = tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_neg();
    if (!plain) copy.copy_(tensor);
    const auto* from = plain ? static_cast<const std::byte*>(tensor.data_ptr()) : nullptr;
    auto* to = static_cast<std::byte*>(copy.data_ptr());
    // Up to where a line begins.
    size_t size = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
    if (size == 0) size = kBlock;
    size_t block = 0;  // of this tensor
    for (size_t at = 0; at < copy.nbytes(); at += std::exchange(size, kBlock)) {
      blocks.push_back({.tensor = copied.size(),
                        .piece = block++ / kBlocksOfPiece,
                        .from = plain ? from + at : nullptr,
                        .to = to + at,
                        .bytes = std::min(size, copy.nbytes() - at),
                        .dtype = copy.scalar_type()});
    }
    copied.push_back(copy);
  }
  std::mutex mutex;
  bool all_finite = true;
  std::map<size_t, Sum> sums;  // by their first block
  on_all_threads(blocks.size(), [&](size_t begin, size_t end) {
    std::map<size_t, Sum> own;
    bool finite = true;
    for (size_t i = begin, first = begin; i < end; ++i) {
      if (blocks[i].tensor != blocks[first].tensor || blocks[i].piece != blocks[first].piece)
        first = i;
      Sum& sum = own[first];
      sum.tensor = blocks[i].tensor;
      sum.piece = blocks[i].piece;
      finite &= copy_block(blocks[i], &sum.crc);
      sum.bytes += blocks[i].bytes;
    }
    end_stores();
    const std::lock_guard lock(mutex);
    all_finite &= finite;
    sums.merge(own);
  });
  std::vector<std::vector<Checksum>> checksums(copied.size());
  for (const auto& [first, sum] : sums) {
    std::vector<Checksum>& pieces = checksums[sum.tensor];
    if (pieces.size() == sum.piece) pieces.push_back({.crc32c = crc32c({})});
    Checksum& piece = pieces.back();
    piece = {piece.bytes + sum.bytes, joined_crc32c(piece.crc32c, sum.crc, sum.bytes)};
  }
  for (size_t i = 0; i < copied.size(); ++i) note_checksums(copied[i], std::move(checksums[i]));
  all_finite_ = all_finite;
  return copies_;
}

}  // namespace muster::inline v0_1
