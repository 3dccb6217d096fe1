#include "muster/checkpoint/checkpoint_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/direct_output.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr size_t kBlock = DirectOutput::kBlock;

// The size of a huge page, in bytes.
constexpr size_t kHuge = size_t{2} << 20;

// Memory from the system, which is not touched before it is used.
class Piece {
 public:
  explicit Piece(size_t bytes) : bytes_(bytes + (bytes < kHuge ? 0 : kHuge)) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::byte*>(memory_);
    if (bytes < kHuge) return;
    begin_ += (kHuge - reinterpret_cast<uintptr_t>(memory_) % kHuge) % kHuge;
    // The disk takes a page where it lies: the kernel looks up, holds and releases each of them.
    // With small pages this takes several times as long as all else in a write. Where the system
    // has no huge pages, the call changes nothing.
    (void)::madvise(begin_, bytes, MADV_HUGEPAGE);
  }
  ~Piece() { ::munmap(memory_, bytes_); }
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  // Begins a page, a huge one if the piece has such.
  std::byte* begin() const { return begin_; }

 private:
  size_t bytes_;
  void* memory_;
  std::byte* begin_;
};

// What a tensor's storage owns.
struct Part {
  std::shared_ptr<Piece> piece;
  std::optional<std::vector<Checksum>> checksums{};
  uint32_t version = 0;  // of the tensor when they were noted
};

void delete_part(void* part) { delete static_cast<Part*>(part); }

Part* part_of(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return nullptr;
  return tensor.storage().data_ptr().cast_context<Part>(&delete_part);
}

size_t bytes_of_spec(const TensorSpec& spec) {
  size_t bytes = c10::elementSize(spec.dtype);
  for (const int64_t size : spec.shape) bytes *= static_cast<size_t>(size);
  return bytes;
}

}  // namespace

std::map<std::string, Tensor> checkpoint_memory(const std::map<std::string, TensorSpec>& specs) {
  // As write_safetensors() sorts them.
  std::vector<const std::pair<const std::string, TensorSpec>*> order;
  for (const auto& each : specs) order.push_back(&each);
  const std::pair<const std::string, TensorSpec> step{kGlobalStep,
                                                      {.shape = {}, .dtype = at::kLong}};
  order.push_back(&step);
  std::ranges::stable_sort(order, [](const auto* a, const auto* b) {
    return c10::elementSize(a->second.dtype) > c10::elementSize(b->second.dtype);
  });
  size_t total = 0, largest = 0, place = 0;
  for (const auto* each : order) {
    const size_t bytes = bytes_of_spec(each->second);
    if (bytes > largest) {
      largest = bytes;
      place = total;
    }
    total += bytes;
  }
  // The largest begins a block, as in the file.
  const size_t first = (kBlock - (place - place % 8) % kBlock) % kBlock;
  const size_t size = (first + total + kBlock) / kBlock * kBlock;
  const auto piece = std::make_shared<Piece>(size);
  std::map<std::string, Tensor> tensors;
  std::byte* at = piece->begin() + first;
  for (const auto* each : order) {
    const size_t bytes = bytes_of_spec(each->second);
    if (each == &step) {
      at += bytes;
      continue;
    }
    c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                         at::DataPtr(at, new Part{.piece = piece}, &delete_part, at::kCPU),
                         /*allocator=*/nullptr, /*resizable=*/false);
    const Tensor tensor = torch::empty({0}, at::dtype(each->second.dtype));
    tensors[each->first] = tensor.set_(std::move(storage), 0, each->second.shape,
                                       c10::contiguous_strides(each->second.shape));
    at += bytes;
  }
  return tensors;
}

std::span<std::byte> memory_of(const std::map<std::string, Tensor>& tensors) {
  std::byte *begin = nullptr, *end = nullptr;
  for (const auto& [name, tensor] : tensors) {
    if (part_of(tensor) == nullptr || tensor.nbytes() == 0) continue;
    auto* const first = static_cast<std::byte*>(tensor.data_ptr());
    begin = begin == nullptr ? first : std::min(begin, first);
    end = std::max(end, first + tensor.nbytes());
  }
  return {begin, end};
}

void note_checksums(const Tensor& tensor, std::vector<Checksum> pieces) {
  if (Part* part = part_of(tensor)) {
    part->checksums = std::move(pieces);
    part->version = static_cast<uint32_t>(tensor._version());
  }
}

std::optional<std::vector<Checksum>> noted_checksums(const Tensor& tensor) {
  const Part* part = part_of(tensor);
  if (part == nullptr || tensor.nbytes() != tensor.storage().nbytes() || !tensor.is_contiguous() ||
      part->version != static_cast<uint32_t>(tensor._version()))
    return std::nullopt;
  return part->checksums;
}

std::optional<uint32_t> noted_crc32c(const Tensor& tensor) {
  const auto pieces = noted_checksums(tensor);
  if (!pieces) return std::nullopt;
  uint32_t crc = crc32c({});
  for (const Checksum& piece : *pieces) crc = joined_crc32c(crc, piece.crc32c, piece.bytes);
  return crc;
}

}  // namespace muster::inline v0_1
