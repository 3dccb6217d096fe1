#include "muster/preprocessing/string_lookup.h"

#include <algorithm>
#include <utility>

#include "muster/preprocessing/internal/adapt.h"
#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/lookup.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

struct StringLookup::Impl {
  static constexpr const char* kLayer = "StringLookup";

  explicit Impl(StringLookupOptions given)
      : table(internal::make_table(kLayer, given)), options(std::move(given)) {}

  std::unique_ptr<const internal::LookupTable<std::string>> table;
  StringLookupOptions options;
};

StringLookup::StringLookup(StringLookupOptions options)
    : impl_(std::make_shared<const Impl>(std::move(options))) {}

StringLookup StringLookup::adapt(const Strings& batch) const {
  return adapt(Dataset::from_tensors(batch));
}

StringLookup StringLookup::adapt(const Dataset& batches) const {
  internal::refuse_table(Impl::kLayer, impl_->table);
  internal::TokenCounter<std::string> counter;
  internal::for_each_value(Impl::kLayer, batches, [&](const Value& value, const std::string&) {
    const Strings& tokens = value.strings();
    const int64_t rows = tokens.shape().empty() ? 1 : tokens.shape()[0];
    const int64_t width = tokens.size() / std::max<int64_t>(rows, 1);
    for (int64_t i = 0; i < tokens.size(); ++i) {
      if (i % width == 0) counter.begin_document();
      counter.add(tokens[i]);
    }
  });
  return StringLookup(internal::with_counted(Impl::kLayer, impl_->options, counter));
}

Tensor StringLookup::operator()(const Strings& tokens) const {
  const auto& table = internal::require_table(Impl::kLayer, impl_->table);
  table.check_way(/*invert=*/false);
  Tensor numbers = torch::empty(tokens.shape(), at::TensorOptions(kInt64));
  int64_t* number = numbers.data_ptr<int64_t>();
  for (int64_t i = 0; i < tokens.size(); ++i) number[i] = table.number_of(tokens[i]);
  return table.encoded(numbers);
}

Strings StringLookup::operator()(const Tensor& numbers) const {
  const auto& table = internal::require_table(Impl::kLayer, impl_->table);
  table.check_way(/*invert=*/true);
  const Tensor known = internal::to_int64(numbers, Impl::kLayer).to(at::kCPU).contiguous();
  const int64_t* number = known.data_ptr<int64_t>();
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (int64_t i = 0; i < known.numel(); ++i) {
    bytes += table.token_of(number[i]);
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(known.sizes().vec(), std::move(offsets), std::move(bytes));
}

std::vector<std::string> StringLookup::vocabulary(bool include_special_tokens) const {
  if (impl_->table == nullptr) return {};
  return impl_->table->vocabulary(include_special_tokens);
}

int64_t StringLookup::vocabulary_size() const {
  return impl_->table == nullptr ? 0 : impl_->table->size();
}

}  // namespace muster::inline v0_1
