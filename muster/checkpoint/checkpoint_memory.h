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

// Notes the CRC-32C of the bytes of a tensor from checkpoint_memory(). It holds until an operation
// of LibTorch changes the tensor. Bytes that are written through a pointer do not count: note their
// checksum again.
void note_crc32c(const Tensor& tensor, uint32_t crc);
// What was noted; nothing for other tensors.
std::optional<uint32_t> noted_crc32c(const Tensor& tensor);

}  // namespace muster::inline v0_1
