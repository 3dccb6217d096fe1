#include "muster/features/feature_column.h"

#include "muster/base/error.h"
#include "muster/features/internal/column.h"

namespace muster::inline v0_1 {

FeatureColumn::FeatureColumn(std::shared_ptr<const feature_column::internal::Column> impl)
    : impl_(std::move(impl)) {
  if (!impl_) throw invalid_argument("a FeatureColumn was made without an implementation");
}

const std::string& FeatureColumn::name() const { return impl_->name(); }
bool FeatureColumn::is_categorical() const { return impl_->is_categorical(); }
bool FeatureColumn::is_dense() const { return impl_->is_dense(); }

int64_t FeatureColumn::num_buckets() const {
  return feature_column::internal::as_categorical("num_buckets()", impl_)->num_buckets();
}

Shape FeatureColumn::variable_shape() const { return impl_->variable_shape(); }

}  // namespace muster::inline v0_1
