#include "muster/data/source.h"

#include <limits>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/data/internal/element_kinds.h"
#include "muster/data/internal/row_collector.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using data::internal::TypedSource;

bool are_in_order(std::span<const int64_t> indices) {
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] != indices[i - 1] + 1) return false;
  }
  return true;
}

// Row i of a contiguous CPU tensor, or rows: whole rows are copied, which is several times quicker
// than indexing.
struct RowCopier {
  explicit RowCopier(const Tensor& tensor)
      : from(static_cast<const char*>(tensor.data_ptr())),
        row_bytes(tensor.size(0) == 0 ? 0
                                      : static_cast<size_t>(tensor.nbytes()) /
                                            static_cast<size_t>(tensor.size(0))) {}

  // `in_order`: each index is the one before and 1.
  void copy(std::span<const int64_t> indices, bool in_order, char* to) const {
    if (in_order && !indices.empty()) {
      std::memcpy(to, from + static_cast<size_t>(indices[0]) * row_bytes,
                  indices.size() * row_bytes);
      return;
    }
    switch (row_bytes) {
      case 0:
        return;
      case 1:
        return copy_fixed<1>(indices, to);
      case 4:
        return copy_fixed<4>(indices, to);
      case 8:
        return copy_fixed<8>(indices, to);
      default:
        break;
    }
    // Rows are far apart: ask for one while others are being copied.
    constexpr size_t kAhead = 4, kLine = 64, kMost = 1024;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (i + kAhead < indices.size()) {
        const char* later = from + static_cast<size_t>(indices[i + kAhead]) * row_bytes;
        for (size_t at = 0; at < std::min(row_bytes, kMost); at += kLine) {
          __builtin_prefetch(later + at);
        }
      }
      std::memcpy(to, from + static_cast<size_t>(indices[i]) * row_bytes, row_bytes);
      to += row_bytes;
    }
  }

  template <size_t kBytes>
  void copy_fixed(std::span<const int64_t> indices, char* to) const {
    for (const int64_t index : indices) {
      std::memcpy(to, from + static_cast<size_t>(index) * kBytes, kBytes);
      to += kBytes;
    }
  }

  const char* from;
  size_t row_bytes;
};

class Slices final : public TypedSource {
 public:
  explicit Slices(Element element) {
    if (element.values().empty()) {
      throw invalid_argument("from_tensor_slices needs at least one tensor, got an empty element");
    }
    element_ = element.transform([](const Value& value) -> Value {
      if (!value.is_tensor()) return value;
      if (!value.tensor().defined()) {
        throw invalid_argument("from_tensor_slices got an undefined tensor");
      }
      return value.tensor().detach().contiguous();
    });
    size_ = element_.values().front().rows();
    for (const Value& value : element_.values()) {
      if (value.rows() != size_) {
        throw invalid_argument(
            fmt::format("from_tensor_slices needs equal first dimensions: {} has {}, {} has {}",
                        element_.values().front().describe(), size_, value.describe(),
                        value.rows()),
            "give one row per example in every tensor");
      }
    }
  }

  std::string kind() const override { return "slices"; }
  Element kinds() const override { return element_; }
  int64_t size() const override { return size_; }

  Element element(int64_t index) const override {
    return rows(std::span<const int64_t>(&index, 1), true);
  }
  Element gather(std::span<const int64_t> indices) const override { return rows(indices, false); }

 private:
  Element rows(std::span<const int64_t> indices, bool single) const {
    std::vector<Value> values;
    values.reserve(element_.values().size());
    const bool in_order = are_in_order(indices);
    for (const Value& value : element_.values()) {
      if (!value.is_tensor() || !value.tensor().device().is_cpu()) {
        values.push_back(single ? value.gather(indices).row(0) : value.gather(indices));
        continue;
      }
      const Tensor& all = value.tensor();
      c10::SmallVector<int64_t, 6> shape(all.sizes().begin() + (single ? 1 : 0), all.sizes().end());
      if (!single) shape[0] = static_cast<int64_t>(indices.size());
      Tensor out = at::empty(shape, all.options());
      RowCopier(all).copy(indices, in_order, static_cast<char*>(out.data_ptr()));
      values.emplace_back(std::move(out));
    }
    return Element::make(element_.shared_structure(), std::move(values));
  }

  Element element_;
  int64_t size_ = 0;
};

class Whole final : public TypedSource {
 public:
  explicit Whole(Element element) : element_(std::move(element)) {}

  std::string kind() const override { return "tensors"; }
  Element kinds() const override { return element_; }
  int64_t size() const override { return 1; }
  Element element(int64_t) const override {
    return element_.transform([](const Value& value) -> Value {
      return value.is_tensor() ? Value(value.tensor().detach().clone()) : value;
    });
  }

 private:
  const Element element_;
};

class Range final : public TypedSource {
 public:
  Range(int64_t start, int64_t size, int64_t step) : start_(start), size_(size), step_(step) {}

  std::string kind() const override { return "range"; }
  Element kinds() const override { return Element(torch::empty({0}, at::kLong)); }
  int64_t size() const override { return size_; }
  Element element(int64_t index) const override {
    return Element(torch::scalar_tensor(number(index), at::kLong));
  }
  Element gather(std::span<const int64_t> indices) const override {
    Tensor out = torch::empty({static_cast<int64_t>(indices.size())}, at::kLong);
    std::transform(indices.begin(), indices.end(), out.data_ptr<int64_t>(),
                   [this](int64_t index) { return number(index); });
    return Element(std::move(out));
  }

 private:
  // Without signs: the way to a number may be longer than the largest number.
  int64_t number(int64_t index) const {
    return static_cast<int64_t>(static_cast<uint64_t>(start_) +
                                static_cast<uint64_t>(index) * static_cast<uint64_t>(step_));
  }

  const int64_t start_, size_, step_;
};

}  // namespace

Element Source::gather(std::span<const int64_t> indices) const {
  if (indices.empty()) return Element::stack({element(0)}).slice(0, 0);
  Element first = element(indices.front());
  data::internal::BatchMemory memory;
  data::internal::RowCollector rows(first, static_cast<int64_t>(indices.size()), memory);
  rows.put(0, std::move(first));
  for (size_t i = 1; i < indices.size(); ++i)
    rows.put(static_cast<int64_t>(i), element(indices[i]));
  return rows.join();
}

Dataset Dataset::from_tensor_slices(Element element) {
  return from_source(std::make_shared<const Slices>(std::move(element)));
}

Dataset Dataset::from_tensors(Element element) {
  return from_source(std::make_shared<const Whole>(std::move(element)));
}

Dataset Dataset::range(int64_t n) {
  if (n < 0) throw invalid_argument(fmt::format("range({}): pass a count of elements", n));
  return from_source(std::make_shared<const Range>(0, n, 1));
}

Dataset Dataset::range(int64_t start, int64_t stop, int64_t step) {
  if (step == 0) {
    throw invalid_argument(fmt::format("range({}, {}, 0): the step must not be 0", start, stop));
  }
  uint64_t size = 0;
  if (step > 0 ? start < stop : start > stop) {
    // Without signs: two numbers may lie further apart than the largest number.
    const auto from = static_cast<uint64_t>(start), to = static_cast<uint64_t>(stop);
    const uint64_t distance = step > 0 ? to - from : from - to;
    const uint64_t length =
        step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    size = distance / length + (distance % length != 0 ? 1 : 0);
  }
  if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw invalid_argument(
        fmt::format("range({}, {}, {}) has more elements than can be counted", start, stop, step));
  }
  return from_source(std::make_shared<const Range>(start, static_cast<int64_t>(size), step));
}

Dataset Dataset::random(std::optional<uint64_t> seed) {
  const Dataset numbers = from_tensors(Element(torch::scalar_tensor(0, at::kLong)))
                              .repeat()
                              .map(
                                  [](const Element&, RandomKey key) {
                                    return Element(torch::scalar_tensor(
                                        static_cast<int64_t>(Random(key).next_u32()), at::kLong));
                                  },
                                  {.name = "random"});
  return seed ? numbers.with_seed(*seed) : numbers;
}

}  // namespace muster::inline v0_1
