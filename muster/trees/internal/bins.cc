#include "muster/trees/internal/bins.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::trees {
namespace {

constexpr size_t kValues = kMaxBins - 1;
constexpr int kFirstBits = 16, kNextBits = 8;

template <typename Number>
using KeyOf = std::conditional_t<std::is_same_v<Number, float>, uint32_t, uint64_t>;
template <typename Number>
constexpr int kKeyBits = 8 * static_cast<int>(sizeof(Number));
template <typename Number>
constexpr KeyOf<Number> kKeySign = KeyOf<Number>{1} << (kKeyBits<Number> - 1);

// Ordered as the numbers are; -0 is 0.
template <typename Number>
KeyOf<Number> key_of(Number x) {
  const auto bits = std::bit_cast<KeyOf<Number>>(x + Number{0});
  return bits ^ ((bits & kKeySign<Number>) != 0 ? ~KeyOf<Number>{0} : kKeySign<Number>);
}

template <typename Number>
Number value_of(KeyOf<Number> key) {
  return std::bit_cast<Number>(
      key ^ ((key & kKeySign<Number>) != 0 ? kKeySign<Number> : ~KeyOf<Number>{0}));
}

// Values that begin with the same bits.
struct Range {
  uint64_t prefix{};
  int64_t before{};  // weight of smaller values
  int64_t weight{};
};

// Weights as whole numbers, whose sums do not depend on their order.
std::vector<int64_t> whole_weights(const Rows& rows, distribute::Exchange& exchange) {
  float largest = 0;
  for (const float weight : rows.weights) largest = std::max(largest, weight);
  const Tensor mine = torch::full({1}, static_cast<double>(largest), kFloat64);
  for (const Tensor& other : exchange.gather(mine, 0))
    largest = std::max(largest, static_cast<float>(other.item<double>()));
  int exponent = 0;
  std::frexp(largest, &exponent);
  constexpr int kWeightBits = 20;
  std::vector<int64_t> whole(rows.weights.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    const double scaled = std::ldexp(static_cast<double>(rows.weights[i]), kWeightBits - exponent);
    whole[i] = std::max<int64_t>(1, std::llround(scaled));
  }
  return whole;
}

template <typename Number>
class Cutter {
 public:
  Cutter(const std::vector<Number>& column, const std::vector<int64_t>& weights,
         distribute::Exchange& exchange)
      : column_(column), weights_(weights), exchange_(exchange) {}

  std::vector<double> operator()(bool category, const std::string& feature) {
    std::vector<Range> ranges = refine({{0, 0, 0}}, kFirstBits);
    for (const Range& range : ranges) total_ += range.weight;
    for (int bits = kFirstBits; bits < kKeyBits<Number>; bits += kNextBits) {
      if (ranges.empty()) return {};  // all are missing
      ranges = refine(chosen(std::move(ranges)), kNextBits);
    }
    if (category && !every_) refuse(feature);
    ranges = chosen(std::move(ranges));
    if (category && !every_) refuse(feature);
    std::vector<double> upper;
    for (const Range& range : ranges)
      upper.push_back(value_of<Number>(static_cast<Key>(range.prefix)));
    return upper;
  }

 private:
  using Key = KeyOf<Number>;

  [[noreturn]] static void refuse(const std::string& feature) {
    throw invalid_argument(
        fmt::format("the categorical feature '{}' has more than {} values", feature, kValues),
        "hash it into fewer, or let it be numeric");
  }

  // All ranges, if there are few; else the ranges that contain a quantile.
  std::vector<Range> chosen(std::vector<Range> ranges) {
    if (every_ && ranges.size() <= kValues) return ranges;
    every_ = false;
    std::vector<Range> around;
    for (const Range& range : ranges) {
      // The first quantile above `before`: j is the smallest with j * total > before * kValues.
      constexpr auto kParts = static_cast<int64_t>(kValues);
      const int64_t j = range.before * kParts / total_ + 1;
      const int64_t end = (range.before + range.weight) * kParts;
      if (j * total_ <= end) around.push_back(range);
    }
    return around;
  }

  // Refines `ranges` by `bits` more.
  std::vector<Range> refine(const std::vector<Range>& ranges, int bits) {
    const size_t width = size_t{1} << bits;
    const int shift = kKeyBits<Number> - known_bits_ - bits;
    const auto slots = static_cast<int64_t>(ranges.size());
    Tensor counts = torch::zeros({slots * static_cast<int64_t>(width)}, kInt64);
    auto* count = counts.data_ptr<int64_t>();
    if (known_bits_ > 0) add_slots(ranges);
    for (size_t i = 0; i < column_.size(); ++i) {
      if (std::isnan(column_[i])) continue;
      const Key key = key_of(column_[i]);
      const uint16_t slot = slot_of(key, kKeyBits<Number>);
      if (slot == 0) continue;
      const size_t place =
          (slot - size_t{1}) * width + (static_cast<size_t>(key >> shift) & (width - 1));
      count[place] += weights_.empty() ? 1 : weights_[i];
    }
    counts = exchange_.reduce(distribute::ReduceOp::kSum, counts);
    count = counts.data_ptr<int64_t>();
    std::vector<Range> found;
    for (size_t s = 0; s < ranges.size(); ++s) {
      int64_t before = ranges[s].before;
      for (size_t i = 0; i < width; ++i) {
        const int64_t weight = count[s * width + i];
        if (weight == 0) continue;
        found.push_back({(ranges[s].prefix << bits) | i, before, weight});
        before += weight;
      }
    }
    known_bits_ += bits;
    return found;
  }

  // Adds the table that leads from the known bits of a value to its range, 0 if there is none: the
  // first one by the first bits, the others by the range of the table before and the next bits.
  void add_slots(const std::vector<Range>& ranges) {
    std::vector<uint16_t> table(
        tables_.empty() ? size_t{1} << kFirstBits : (kValues + 1) << kNextBits, 0);
    for (size_t s = 0; s < ranges.size(); ++s) {
      const uint64_t prefix = ranges[s].prefix;
      const size_t parent = tables_.empty() ? 0 : slot_of(prefix, known_bits_);
      const size_t place =
          tables_.empty() ? prefix : (parent << kNextBits) | (prefix & ((1U << kNextBits) - 1));
      table[place] = static_cast<uint16_t>(s + 1);
    }
    tables_.push_back(std::move(table));
  }

  // The range of a value of which `bits` bits are given.
  uint16_t slot_of(uint64_t key, int bits) const {
    if (tables_.empty()) return 1;
    int shift = bits - kFirstBits;
    uint16_t slot = tables_.front()[key >> shift];
    for (size_t t = 1; t < tables_.size() && slot != 0; ++t) {
      shift -= kNextBits;
      slot = tables_[t][(size_t{slot} << kNextBits) | ((key >> shift) & ((1U << kNextBits) - 1))];
    }
    return slot;
  }

  const std::vector<Number>& column_;
  const std::vector<int64_t>& weights_;
  distribute::Exchange& exchange_;
  int64_t total_ = 0;
  int known_bits_ = 0;
  bool every_ = true;  // each value has a bin of its own
  std::vector<std::vector<uint16_t>> tables_;
};

// Where floats are cut, so that their bins are found quickly.
struct FloatEdges {
  std::vector<uint32_t> keys;  // of the upper ends
  // For each beginning of a key, the first bin that may hold it.
  std::vector<uint8_t> firsts;

  explicit FloatEdges(const std::vector<double>& upper) {
    for (const double end : upper) keys.push_back(key_of(static_cast<float>(end)));
    firsts.resize((size_t{1} << kFirstBits) + 1);
    size_t at = 0;
    for (size_t p = 0; p < firsts.size(); ++p) {
      while (at < keys.size() && (keys[at] >> kFirstBits) < p) ++at;
      firsts[p] = static_cast<uint8_t>(at);
    }
  }
};

// The rows from `begin` to `end` of a feature; bin 0 is set already.
void bin_floats(const std::vector<float>& column, const FloatEdges& edges, size_t begin, size_t end,
                size_t feature, BinnedRows* binned) {
  const uint32_t* keys = edges.keys.data();
  const uint8_t* first = edges.firsts.data();
  uint8_t* out = binned->bins.data() + begin * binned->features + feature;
  uint8_t* in_column = binned->columns.data() + feature * static_cast<size_t>(binned->rows);
  for (size_t i = begin; i < end; ++i, out += binned->features) {
    if (std::isnan(column[i])) continue;
    const uint32_t key = key_of(column[i]), p = key >> kFirstBits;
    *out = static_cast<uint8_t>(std::lower_bound(keys + first[p], keys + first[p + 1], key) - keys +
                                1);
    in_column[i] = *out;
  }
}

void bin_doubles(const std::vector<double>& column, const std::vector<double>& upper, size_t begin,
                 size_t end, size_t feature, BinnedRows* binned) {
  for (size_t i = begin; i < end; ++i) {
    if (std::isnan(column[i])) continue;
    const auto bin = static_cast<uint8_t>(std::lower_bound(upper.begin(), upper.end(), column[i]) -
                                          upper.begin() + 1);
    binned->bins[i * binned->features + feature] = bin;
    binned->columns[feature * static_cast<size_t>(binned->rows) + i] = bin;
  }
}

}  // namespace

Bins make_bins(const Rows& rows, const std::vector<bool>& category,
               distribute::Exchange& exchange) {
  const std::vector<int64_t> weights = whole_weights(rows, exchange);
  Bins bins{.category = category, .offsets = {0}};
  for (size_t f = 0; f < rows.columns.size(); ++f) {
    bins.upper.push_back(
        rows.is_in_double(f)
            ? Cutter(rows.doubles[f], weights, exchange)(category[f], rows.features[f])
            : Cutter(rows.columns[f], weights, exchange)(category[f], rows.features[f]));
    bins.offsets.push_back(bins.offsets.back() + static_cast<uint32_t>(bins.upper.back().size()) +
                           1);
  }
  return bins;
}

BinnedRows bin_rows(const Rows& rows, const Bins& bins) {
  const size_t features = bins.features();
  const auto count = static_cast<size_t>(rows.size());
  BinnedRows binned{.rows = rows.size(), .features = features};
  binned.bins.resize(count * features);
  binned.columns.resize(count * features);
  std::vector<FloatEdges> edges;
  for (size_t f = 0; f < features; ++f)
    edges.emplace_back(rows.is_in_double(f) ? std::vector<double>() : bins.upper[f]);
  constexpr size_t kBlock = 4096;  // so that the written bytes stay in the cache
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t end = std::min(count, begin + kBlock);
    for (size_t f = 0; f < features; ++f) {
      if (rows.is_in_double(f)) {
        bin_doubles(rows.doubles[f], bins.upper[f], begin, end, f, &binned);
      } else {
        bin_floats(rows.columns[f], edges[f], begin, end, f, &binned);
      }
    }
  }
  return binned;
}

}  // namespace muster::inline v0_1::trees
