// The numbers of the rows a batch asks of a table, each once. Thread safety: a pure function.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

struct UniqueNumbers {
  Tensor numbers;  // int64 [n], sorted, each once
  Tensor places;   // of each number that was given: where it stands; -1 of one below 0
};

// `given`: int64 of any shape, which places have too, k numbers less than `size`, contiguous; on
// the CPU, where it takes time that follows k, and size / 64 where that is not much more. Numbers
// below 0 stand for none, and on another device there must be none of them.
UniqueNumbers unique_numbers(const Tensor& given, int64_t size);

}  // namespace muster::inline v0_1::internal
