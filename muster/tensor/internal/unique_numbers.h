// The numbers of the rows a batch asks of a table, each once. Thread safety: a pure function.
#pragma once

#include <cstdint>

#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

struct UniqueNumbers {
  Tensor numbers;  // int64 [n], sorted, each once
  Tensor places;   // for each given number: its place; -1 for one below 0
};

// `given`: int64 of any shape, which places have too, k numbers less than `size`, contiguous; on
// the CPU, where its time is in proportion to k, and to size / 64 if that is not much more. Numbers
// below 0 mean no number; on another device there must be none of them.
UniqueNumbers unique_numbers(const Tensor& given, int64_t size);

}  // namespace muster::inline v0_1::internal
