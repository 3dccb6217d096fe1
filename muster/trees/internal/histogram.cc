#include "muster/trees/internal/histogram.h"

#include <algorithm>

namespace muster::inline v0_1::trees {

Histograms::Histograms(const Bins& bins, const BinnedRows& rows) : bins_(bins), rows_(rows) {
  partial_.resize(bins.total());
}

void Histograms::sum(std::span<const uint32_t> rows, const std::vector<int64_t>& packed,
                     std::span<Sums> out) {
  std::ranges::fill(out, Sums());
  const size_t features = rows_.features;
  const uint8_t* all = rows_.bins.data();
  const uint32_t* offsets = bins_.offsets.data();
  int64_t* sums = partial_.data();
  constexpr size_t kAhead = 16;  // rows whose bins are fetched before they are needed
  for (size_t begin = 0; begin < rows.size(); begin += kSumsOfPacked) {
    const size_t end = std::min(rows.size(), begin + static_cast<size_t>(kSumsOfPacked));
    std::ranges::fill(partial_, 0);
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) {
        const size_t ahead = rows[i + kAhead];
        const uint8_t* next = all + ahead * features;
        __builtin_prefetch(next);
        __builtin_prefetch(next + features - 1);
        __builtin_prefetch(&packed[ahead]);
      }
      const size_t row = rows[i];
      const uint8_t* bins = all + row * features;
      const int64_t add = packed[row];
      size_t f = 0;
      for (; f + 4 <= features; f += 4) {
        sums[offsets[f] + bins[f]] += add;
        sums[offsets[f + 1] + bins[f + 1]] += add;
        sums[offsets[f + 2] + bins[f + 2]] += add;
        sums[offsets[f + 3] + bins[f + 3]] += add;
      }
      for (; f < features; ++f) sums[offsets[f] + bins[f]] += add;
    }
    for (size_t b = 0; b < partial_.size(); ++b) out[b] += unpack(sums[b]);
  }
}

void subtract(const Histogram& part, Histogram* of) {
  for (size_t b = 0; b < part.size(); ++b) (*of)[b] = (*of)[b] - part[b];
}

}  // namespace muster::inline v0_1::trees
