#include "muster/tensor/value.h"

#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

int64_t elements_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Returns the elements in one row of axis 0.
int64_t row_elements(const Shape& shape) {
  return std::accumulate(shape.begin() + 1, shape.end(), int64_t{1}, std::multiplies<>());
}

void check_range(int64_t begin, int64_t end, int64_t rows) {
  if (begin < 0 || end < begin || end > rows) {
    throw invalid_argument(
        fmt::format("rows [{}, {}) are outside of a value with {} rows", begin, end, rows));
  }
}

// Whether rows of both can be in one value. REQUIRES: neither is a scalar.
bool same_rows(const Value& a, const Value& b) {
  if (a.is_tensor() != b.is_tensor()) return false;
  if (a.is_tensor()) {
    const Tensor &s = a.tensor(), &t = b.tensor();
    return s.scalar_type() == t.scalar_type() && s.sizes().slice(1) == t.sizes().slice(1);
  }
  const Shape &s = a.strings().shape(), &t = b.strings().shape();
  return std::equal(s.begin() + 1, s.end(), t.begin() + 1, t.end());
}

[[noreturn]] void throw_unequal(const Value& first, const Value& other, size_t at) {
  throw invalid_argument(
      fmt::format("cannot put element 0, {}, and element {}, {}, into one batch: they differ",
                  first.describe(), at, other.describe()),
      "give every element one shape and dtype (resize, pad or cast in map()) before batch()");
}

Strings concatenate_strings(const std::vector<Value>& values, Shape shape) {
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const Value& value : values) {
    const Strings& strings = value.strings();
    for (int64_t i = 0; i < strings.size(); ++i) {
      bytes += strings[i];
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
  }
  return Strings(std::move(shape), std::move(offsets), std::move(bytes));
}

}  // namespace

Strings::Strings(const std::vector<std::string>& values)
    : shape_{static_cast<int64_t>(values.size())} {
  offsets_.reserve(values.size() + 1);
  for (const std::string& value : values) {
    bytes_ += value;
    offsets_.push_back(static_cast<int64_t>(bytes_.size()));
  }
}

Strings::Strings(Shape shape, std::vector<int64_t> offsets, std::string bytes)
    : shape_(std::move(shape)), offsets_(std::move(offsets)), bytes_(std::move(bytes)) {
  if (static_cast<int64_t>(offsets_.size()) != elements_of(shape_) + 1 || offsets_.front() != 0 ||
      offsets_.back() != static_cast<int64_t>(bytes_.size()) ||
      !std::is_sorted(offsets_.begin(), offsets_.end())) {
    throw invalid_argument(fmt::format(
        "strings of shape {} need {} ascending offsets from 0 to the {} bytes there are"
        ", not {} offsets",
        muster::describe(shape_), elements_of(shape_) + 1, bytes_.size(), offsets_.size()));
  }
}

Strings Strings::scalar(std::string text) {
  const auto size = static_cast<int64_t>(text.size());
  return Strings({}, {0, size}, std::move(text));
}

std::string_view Strings::operator[](int64_t i) const& {
  const int64_t begin = offsets_[static_cast<size_t>(i)];
  return std::string_view(bytes_).substr(
      static_cast<size_t>(begin),
      static_cast<size_t>(offsets_[static_cast<size_t>(i) + 1] - begin));
}

Tensor Value::tensor() && { return std::as_const(*this).tensor(); }

Strings Value::strings() && {
  if (auto* strings = std::get_if<Strings>(&data_)) return std::move(*strings);
  return std::as_const(*this).strings();
}

const Tensor& Value::tensor() const& {
  if (const Tensor* tensor = std::get_if<Tensor>(&data_)) return *tensor;
  throw invalid_argument("this value is " + describe() + ", not a tensor",
                         "turn strings into numbers in map(), or read them with Value::strings()");
}

const Strings& Value::strings() const& {
  if (const Strings* strings = std::get_if<Strings>(&data_)) return *strings;
  throw invalid_argument("this value is " + describe() + ", not strings",
                         "read it with Value::tensor()");
}

int64_t Value::rows() const {
  const bool scalar =
      is_tensor() ? !tensor().defined() || tensor().dim() == 0 : strings().shape().empty();
  if (scalar) {
    throw invalid_argument("the value " + describe() + " has no rows",
                           "a batch needs at least one axis; call batch() first");
  }
  return is_tensor() ? tensor().size(0) : strings().shape()[0];
}

Value Value::slice(int64_t begin, int64_t end) const {
  check_range(begin, end, rows());
  if (is_tensor()) return tensor().slice(0, begin, end);
  const Strings& all = strings();
  Shape shape = all.shape();
  const int64_t width = row_elements(shape);
  shape[0] = end - begin;
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (int64_t i = begin * width; i < end * width; ++i) {
    bytes += all[i];
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(std::move(shape), std::move(offsets), std::move(bytes));
}

Value Value::row(int64_t i) const {
  check_range(i, i + 1, rows());
  if (is_tensor()) return tensor().select(0, i);
  const Value one = slice(i, i + 1);
  const Strings& strings = one.strings();
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (int64_t j = 0; j < strings.size(); ++j) {
    bytes += strings[j];
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(Shape(strings.shape().begin() + 1, strings.shape().end()), std::move(offsets),
                 std::move(bytes));
}

Value Value::gather(std::span<const int64_t> indices) const {
  const int64_t count = rows();
  for (int64_t index : indices) check_range(index, index + 1, count);
  if (is_strings()) {
    std::vector<Value> picked;
    picked.reserve(indices.size());
    for (int64_t index : indices) picked.push_back(slice(index, index + 1));
    Shape shape = strings().shape();
    shape[0] = static_cast<int64_t>(indices.size());
    return concatenate_strings(picked, std::move(shape));
  }
  const Tensor& all = tensor();
  Shape shape = all.sizes().vec();
  shape[0] = static_cast<int64_t>(indices.size());
  if (!all.is_contiguous() || !all.device().is_cpu() || all.requires_grad()) {
    return all.index_select(
        0, torch::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size())).to(all.device()));
  }
  // Whole rows of a contiguous tensor: copying bytes is several times quicker than index_select.
  Tensor out = torch::empty(shape, all.options());
  const size_t row_bytes = static_cast<size_t>(row_elements(shape)) * all.element_size();
  const auto* from = static_cast<const std::byte*>(all.data_ptr());
  auto* to = static_cast<std::byte*>(out.data_ptr());
  for (int64_t index : indices) {
    std::memcpy(to, from + static_cast<size_t>(index) * row_bytes, row_bytes);
    to += row_bytes;
  }
  return out;
}

Value Value::stack(const std::vector<Value>& values) {
  if (values.empty()) throw invalid_argument("cannot stack an empty list of values");
  const Value& first = values.front();
  if (first.is_tensor()) {
    std::vector<Tensor> tensors;
    tensors.reserve(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (!values[i].is_tensor() ||
          values[i].tensor().scalar_type() != first.tensor().scalar_type() ||
          values[i].tensor().sizes() != first.tensor().sizes()) {
        throw_unequal(first, values[i], i);
      }
      tensors.push_back(values[i].tensor());
    }
    return at::stack(tensors);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].is_strings() || values[i].strings().shape() != first.strings().shape()) {
      throw_unequal(first, values[i], i);
    }
  }
  Shape shape = first.strings().shape();
  shape.insert(shape.begin(), static_cast<int64_t>(values.size()));
  return concatenate_strings(values, std::move(shape));
}

Value Value::concatenate(const std::vector<Value>& values) {
  if (values.empty()) throw invalid_argument("cannot concatenate an empty list of values");
  for (const Value& value : values) {
    if (same_rows(values.front(), value)) continue;
    throw invalid_argument(
        fmt::format("cannot put rows of {} and of {} into one batch: they differ",
                    values.front().describe(), value.describe()),
        "give all rows one shape and dtype (resize, pad or cast in map())");
  }
  if (values.front().is_tensor()) {
    std::vector<Tensor> tensors;
    for (const Value& value : values) tensors.push_back(value.tensor());
    return at::cat(tensors);
  }
  Shape shape = values.front().strings().shape();
  shape[0] = 0;
  for (const Value& value : values) shape[0] += value.rows();
  return concatenate_strings(values, std::move(shape));
}

std::string Value::describe() const {
  if (is_tensor()) return muster::describe(std::get<Tensor>(data_));
  return "string" + muster::describe(std::get<Strings>(data_).shape());
}

}  // namespace muster::inline v0_1
