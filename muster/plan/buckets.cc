#include "muster/plan/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "muster/base/error.h"

namespace muster::inline v0_1::plan {
namespace {

constexpr int64_t kNearlyEmpty = 8;  // a bucket filled less than 1 / 8

}  // namespace

std::vector<Bucket> plan_buckets(std::span<const FlatParameter> layout,
                                 const BucketOptions& options) {
  if (options.first_bucket_bytes < 1 || options.bucket_bytes < 1) {
    throw invalid_argument(
        fmt::format("bucket sizes must be positive, got first_bucket_bytes {} and bucket_bytes {}",
                    options.first_bucket_bytes, options.bucket_bytes));
  }
  std::map<int, int64_t> end_of;  // bytes of each dtype's flat buffer
  std::set<int64_t> seen;
  for (const FlatParameter& entry : layout) {
    if (entry.bytes < 0 || entry.parameter < 0) {
      throw invalid_argument(fmt::format("parameter {} of the flat layout has {} bytes",
                                         entry.parameter, entry.bytes));
    }
    if (!seen.insert(entry.parameter).second) {
      throw invalid_argument(
          fmt::format("parameter {} is listed twice in the flat layout", entry.parameter));
    }
    end_of[entry.dtype] += entry.bytes;
  }

  std::vector<Bucket> buckets;
  std::map<int, size_t> open;  // the bucket of each dtype that still takes parameters
  for (size_t i = layout.size(); i-- > 0;) {
    const FlatParameter& entry = layout[i];
    const auto found = open.find(entry.dtype);
    bool fits = false;
    if (found != open.end()) {
      const int64_t limit = found->second == 0 ? options.first_bucket_bytes : options.bucket_bytes;
      const int64_t filled = buckets[found->second].bytes;
      fits = filled + entry.bytes <= limit || filled < limit / kNearlyEmpty;
    }
    if (!fits) {
      open[entry.dtype] = buckets.size();
      buckets.push_back({.dtype = entry.dtype, .offset = end_of[entry.dtype]});
    }
    Bucket& bucket = buckets[open[entry.dtype]];
    bucket.offset -= entry.bytes;
    bucket.bytes += entry.bytes;
    end_of[entry.dtype] -= entry.bytes;
    bucket.parameters.push_back(entry.parameter);
  }
  for (Bucket& bucket : buckets) std::ranges::reverse(bucket.parameters);
  return buckets;
}

std::vector<int> launch_order(std::span<const Bucket> buckets,
                              std::span<const int64_t> ready_order) {
  std::map<int64_t, size_t> ready_at;
  for (size_t i = 0; i < ready_order.size(); ++i) {
    if (!ready_at.emplace(ready_order[i], i).second) {
      throw invalid_argument(
          fmt::format("parameter {} is twice in the ready order", ready_order[i]));
    }
  }
  size_t matched = 0;
  std::vector<size_t> complete_at(buckets.size(), 0);
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (const int64_t parameter : buckets[b].parameters) {
      const auto found = ready_at.find(parameter);
      matched += found != ready_at.end();
      complete_at[b] =
          std::max(complete_at[b], found == ready_at.end() ? ready_order.size() : found->second);
    }
  }
  if (matched != ready_at.size()) {
    throw invalid_argument(
        fmt::format("the ready order names {} parameters, of which only {} are in a bucket",
                    ready_at.size(), matched));
  }
  std::vector<int> order(buckets.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int b) { return complete_at[b]; });
  return order;
}

BucketProgress::BucketProgress(std::span<const Bucket> buckets, std::vector<int> order)
    : order_(std::move(order)) {
  std::vector<int> sorted = order_;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted.size() != buckets.size() || sorted[i] != static_cast<int>(i)) {
      throw invalid_argument(
          fmt::format("the launch order of {} entries is not a permutation of the {} buckets",
                      sorted.size(), buckets.size()));
    }
  }
  if (sorted.size() != buckets.size()) {
    throw invalid_argument(fmt::format("{} buckets need a launch order", buckets.size()));
  }
  int64_t last = -1;
  for (const Bucket& bucket : buckets) {
    for (const int64_t parameter : bucket.parameters) last = std::max(last, parameter);
  }
  bucket_of_.assign(last + 1, -1);
  for (size_t b = 0; b < buckets.size(); ++b) {
    for (const int64_t parameter : buckets[b].parameters) {
      bucket_of_[parameter] = static_cast<int>(b);
    }
    sizes_.push_back(static_cast<int>(buckets[b].parameters.size()));
  }
  reset();
}

void BucketProgress::reset() {
  missing_ = sizes_;
  seen_.assign(bucket_of_.size(), 0);
  next_ = 0;
}

std::span<const int> BucketProgress::ready(int64_t parameter) {
  if (parameter < 0 || parameter >= static_cast<int64_t>(bucket_of_.size()) ||
      bucket_of_[parameter] < 0) {
    throw invalid_argument(fmt::format("parameter {} is in no bucket", parameter));
  }
  if (seen_[parameter] != 0) return {};
  seen_[parameter] = 1;
  --missing_[bucket_of_[parameter]];
  return advance();
}

std::span<const int> BucketProgress::rest() {
  const size_t begin = next_;
  next_ = order_.size();
  return std::span(order_).subspan(begin);
}

std::span<const int> BucketProgress::advance() {
  const size_t begin = next_;
  while (next_ < order_.size() && missing_[order_[next_]] == 0) ++next_;
  return std::span(order_).subspan(begin, next_ - begin);
}

}  // namespace muster::inline v0_1::plan
