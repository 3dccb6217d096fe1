#include "muster/tensor/internal/unique_numbers.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// A set of numbers as bits, in words of 64.
UniqueNumbers by_bits(const Tensor& all, int64_t size) {
  const auto* given = all.data_ptr<int64_t>();
  const int64_t count = all.numel();
  const auto words = static_cast<size_t>((size + 63) / 64);
  std::vector<uint64_t> bits(words);
  for (int64_t i = 0; i < count; ++i) {
    if (given[i] >= 0) bits[static_cast<size_t>(given[i]) / 64] |= uint64_t{1} << (given[i] % 64);
  }
  std::vector<int64_t> before(words);  // for each word, how many numbers come before it
  int64_t found = 0;
  for (size_t w = 0; w < words; ++w) {
    before[w] = found;
    found += std::popcount(bits[w]);
  }
  UniqueNumbers unique{at::empty({found}, at::kLong), at::empty(all.sizes(), at::kLong)};
  auto* number = unique.numbers.data_ptr<int64_t>();
  for (size_t w = 0; w < words; ++w) {
    for (uint64_t rest = bits[w]; rest != 0; rest &= rest - 1)
      *number++ = static_cast<int64_t>(64 * w) + std::countr_zero(rest);
  }
  auto* place = unique.places.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    if (given[i] < 0) {
      place[i] = -1;
      continue;
    }
    const size_t w = static_cast<size_t>(given[i]) / 64;
    const uint64_t below = (uint64_t{1} << (given[i] % 64)) - 1;
    place[i] = before[w] + std::popcount(bits[w] & below);
  }
  return unique;
}

// Quicker than LibTorch's hash tables.
UniqueNumbers by_sorting(const Tensor& all) {
  const auto* given = all.data_ptr<int64_t>();
  const int64_t count = all.numel();
  struct Numbered {
    int64_t number;
    int64_t index;
  };
  std::vector<Numbered> sorted;
  sorted.reserve(static_cast<size_t>(count));
  UniqueNumbers unique{at::empty({count}, at::kLong), at::empty(all.sizes(), at::kLong)};
  auto* place = unique.places.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    place[i] = -1;
    if (given[i] >= 0) sorted.push_back({given[i], i});
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
  auto* number = unique.numbers.data_ptr<int64_t>();
  int64_t last = -1;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i].number != sorted[i - 1].number) number[++last] = sorted[i].number;
    place[sorted[i].index] = last;
  }
  unique.numbers = unique.numbers.narrow(0, 0, last + 1);
  return unique;
}

}  // namespace

UniqueNumbers unique_numbers(const Tensor& given, int64_t size) {
  if (!given.is_cpu()) {
    auto [numbers, places, counts] = at::_unique2(given, /*sorted=*/true, /*return_inverse=*/true);
    return {std::move(numbers), std::move(places)};
  }
  constexpr int64_t kWordsOfANumber = 32;  // sorting one number costs as much as looking at this
                                           // many words
  return size / 64 <= kWordsOfANumber * given.numel() ? by_bits(given, size) : by_sorting(given);
}

}  // namespace muster::inline v0_1::internal
