#include "muster/canned/internal/head_of.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/canned/internal/error_context.h"
#include "muster/heads/binary_class_head.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/regression_head.h"

namespace muster::inline v0_1::internal {

Head classifier_head(const std::string& estimator, int64_t n_classes,
                     const WeightColumn& weight_column,
                     const std::vector<std::string>& label_vocabulary,
                     losses::Reduction loss_reduction) {
  if (n_classes < 2) {
    throw invalid_argument(
        fmt::format("{}: n_classes is {}; it must be at least 2", estimator, n_classes));
  }
  return with_error_context(estimator, [&] {
    if (n_classes == 2) {
      return BinaryClassHead({.weight_column = weight_column,
                              .label_vocabulary = label_vocabulary,
                              .loss_reduction = loss_reduction});
    }
    return MultiClassHead({.n_classes = n_classes,
                           .weight_column = weight_column,
                           .label_vocabulary = label_vocabulary,
                           .loss_reduction = loss_reduction});
  });
}

Head regressor_head(const std::string& estimator, int64_t label_dimension,
                    const WeightColumn& weight_column, losses::Reduction loss_reduction) {
  return with_error_context(estimator, [&] {
    return RegressionHead({.label_dimension = label_dimension,
                           .weight_column = weight_column,
                           .loss_reduction = loss_reduction});
  });
}

}  // namespace muster::inline v0_1::internal
