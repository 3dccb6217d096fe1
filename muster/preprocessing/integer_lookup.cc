#include "muster/preprocessing/integer_lookup.h"

#include <algorithm>
#include <utility>

#include "muster/preprocessing/internal/adapt.h"
#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/lookup.h"
#include "muster/preprocessing/internal/tensor_layer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1 {

class IntegerLookup::Impl final : public internal::TensorLayerImpl {
 public:
  static constexpr const char* kLayer = "IntegerLookup";

  explicit Impl(IntegerLookupOptions given)
      : TensorLayerImpl("integer_lookup", given.name),
        table_(internal::make_table(kLayer, given)),
        options_(std::move(given)) {}

  Tensor apply(const Tensor& input) const override {
    refuse_tracing("the layer IntegerLookup", "it looks its values up in its own table");
    const auto& table = internal::require_table(kLayer, table_);
    const Tensor given = internal::to_int64(input, kLayer).to(at::kCPU).contiguous();
    Tensor result = torch::empty(given.sizes(), at::TensorOptions(kInt64));
    const int64_t* from = given.data_ptr<int64_t>();
    int64_t* to = result.data_ptr<int64_t>();
    const bool invert = options_.invert;
    for (int64_t i = 0; i < given.numel(); ++i)
      to[i] = invert ? table.token_of(from[i]) : table.number_of(from[i]);
    result = result.to(input.device());
    return invert ? result : table.encoded(result);
  }

  const std::unique_ptr<const internal::LookupTable<int64_t>>& table() const { return table_; }
  const IntegerLookupOptions& options() const { return options_; }

 private:
  std::unique_ptr<const internal::LookupTable<int64_t>> table_;
  IntegerLookupOptions options_;
};

IntegerLookup::IntegerLookup(IntegerLookupOptions options)
    : impl_(std::make_shared<const Impl>(std::move(options))) {}

IntegerLookup IntegerLookup::adapt(const Tensor& batch) const {
  return adapt(Dataset::from_tensors(batch));
}

IntegerLookup IntegerLookup::adapt(const Dataset& batches) const {
  internal::refuse_table(Impl::kLayer, impl_->table());
  internal::TokenCounter<int64_t> counter;
  internal::for_each_value(Impl::kLayer, batches, [&](const Value& value, const std::string&) {
    const Tensor tokens = internal::to_int64(value.tensor(), Impl::kLayer).contiguous();
    const int64_t rows = tokens.dim() == 0 ? 1 : tokens.size(0);
    const int64_t width = tokens.numel() / std::max<int64_t>(rows, 1);
    const int64_t* token = tokens.data_ptr<int64_t>();
    for (int64_t i = 0; i < tokens.numel(); ++i) {
      if (i % width == 0) counter.begin_document();
      counter.add(token[i]);
    }
  });
  return IntegerLookup(internal::with_counted(Impl::kLayer, impl_->options(), counter));
}

Tensor IntegerLookup::operator()(const Tensor& input) const { return impl_->apply(input); }
IntegerLookup::operator Layer() const { return Layer(impl_); }

std::vector<int64_t> IntegerLookup::vocabulary(bool include_special_tokens) const {
  if (impl_->table() == nullptr) return {};
  return impl_->table()->vocabulary(include_special_tokens);
}

int64_t IntegerLookup::vocabulary_size() const {
  return impl_->table() == nullptr ? 0 : impl_->table()->size();
}

}  // namespace muster::inline v0_1
