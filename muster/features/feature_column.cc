#include "muster/features/feature_column.h"

#include <c10/util/accumulate.h>

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

int64_t FeatureColumn::num_weights() const {
  return is_categorical() ? num_buckets() : c10::multiply_integers(variable_shape());
}

std::vector<std::string> FeatureColumn::value_names() const {
  std::vector<std::string> names;
  const int64_t count = num_weights();
  names.reserve(static_cast<size_t>(count));
  for (int64_t place = 0; place < count; ++place) names.push_back(impl_->value_name(place));
  return names;
}

}  // namespace muster::inline v0_1
