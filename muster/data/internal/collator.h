// Makes a batch of indices, or of elements. Thread safety: as Stream.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "muster/data/internal/batch_checks.h"
#include "muster/data/internal/collate.h"
#include "muster/data/internal/padded_collate.h"
#include "muster/data/internal/source_reader.h"

namespace muster::inline v0_1::data::internal {

// Makes one element of the rows that a batch reads from its input.
template <typename T>
class Collator;

template <>
class Collator<SourceIndex> {
 public:
  // `batch` outlives it.
  Collator(SourceReader reader, const Node& batch) : reader_(std::move(reader)), batch_(batch) {}
  Element join(std::span<SourceIndex> indices) { return reader_.gather(indices, batch_); }
  // The least memory of a row while its batch is made.
  uint64_t row_bytes() const { return sizeof(SourceIndex) + reader_.element_bytes(); }
  bool knows_empty() const { return reader_.knows_empty(); }

 private:
  SourceReader reader_;
  const Node& batch_;
};

template <>
class Collator<StreamElement> {
 public:
  // `batch` outlives it.
  explicit Collator(const Node& batch) : batch_(batch) {}
  // Throws the first error among the elements.
  Element join(std::span<StreamElement> items) {
    rethrow_first(items);
    const PaddingOptions* padding = std::get<Batch>(batch_.spec).padding.get();
    const Place first = items.front().from;  // they are emptied
    return in_batch(batch_, first, [&] {
      return padding == nullptr ? collate(items) : collate_padded(items, *padding);
    });
  }
  uint64_t row_bytes() const { return sizeof(StreamElement); }
  bool knows_empty() const { return false; }

 private:
  const Node& batch_;
};

}  // namespace muster::inline v0_1::data::internal
