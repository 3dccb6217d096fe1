// One collective as plain data. No LibTorch here. Thread safety: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/error.h"

namespace muster::inline v0_1::internal {

enum class OperationKind : uint8_t {
  kAllReduce = 1,
  kBroadcast,
  kAllGather,
  kBarrier,
  kReduceScatter
};
enum class ElementType : uint8_t { kByte = 1, kFloat32, kFloat64, kInt64, kBfloat16, kFloat16 };

int64_t size_of(ElementType type);

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  ElementType type = ElementType::kByte;
  int root = 0;                         // kBroadcast
  int64_t count = 0;                    // elements of `data`; of `out` for kReduceScatter
  std::byte* data = nullptr;            // kReduceScatter: size x count elements
  std::byte* out = nullptr;             // kAllGather: size x count elements
  uint64_t sequence = 0;                // 1, 2, ... in submission order
  std::shared_ptr<const void> owner{};  // keeps the memory alive

  int64_t bytes() const { return count * size_of(type); }
  // The bytes that one of `size` ranks contributes.
  int64_t contributed_bytes(int size) const {
    return kind == OperationKind::kReduceScatter ? size * bytes() : bytes();
  }
  bool sums() const {
    return kind == OperationKind::kAllReduce || kind == OperationKind::kReduceScatter;
  }
  // Same call, apart from the addresses.
  bool matches(const Operation& other) const;
  // "all_reduce #17 of 250 float32".
  std::string describe() const;
};

// The error for ranks whose calls differ, naming both calls.
Error mismatch(int rank, const Operation& mine, int peer, const Operation& theirs);

}  // namespace muster::inline v0_1::internal
