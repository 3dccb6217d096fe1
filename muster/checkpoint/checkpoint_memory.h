// Memory for the tensors of a checkpoint, laid out as in its file: a large checkpoint is written to
// a disk from there, without another copy. The memory also holds the checksums of its tensors, so
// that the one who fills it can compute them in the same pass. Thread safety: free functions; a
// tensor belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/checkpoint/checkpoint.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Returns a tensor on the CPU for each spec, by name, contiguous and without values. All lie in one
// piece of memory, in the order in which write_checkpoint() writes them. A tensor is aligned to its
// element, not more. The memory is freed with the last tensor. Throws std::bad_alloc.
std::map<std::string, Tensor> checkpoint_memory(const std::map<std::string, TensorSpec>& specs);

// The piece of memory in which tensors from one call of checkpoint_memory() lie, from the first
// byte to the last one, in bytes. Empty where `tensors` is.
std::span<std::byte> memory_of(const std::map<std::string, Tensor>& tensors);

// The CRC-32C of so many bytes.
struct Checksum {
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

// Notes the checksums of the bytes of a tensor from checkpoint_memory(), of one piece after the
// other. They hold until an operation of LibTorch changes the tensor. Bytes that are written
// through a pointer do not count: note their checksums again.
void note_checksums(const Tensor& tensor, std::vector<Checksum> pieces);
// What was noted; nothing for other tensors.
std::optional<std::vector<Checksum>> noted_checksums(const Tensor& tensor);
// The same as one checksum of all bytes.
std::optional<uint32_t> noted_crc32c(const Tensor& tensor);

}  // namespace muster::inline v0_1
