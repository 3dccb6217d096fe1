#include "muster/canned/dnn_linear_combined.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "muster/base/error.h"
#include "muster/canned/internal/dnn_part.h"
#include "muster/canned/internal/head_of.h"
#include "muster/canned/internal/linear_part.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

using internal::DnnPart;
using internal::LinearPart;

// A part of the logits, and its optimizer.
template <typename Part>
struct Trained {
  Part part;
  optim::Optimizer optimizer;

  optim::TrainOp minimize(const Tensor& loss, ModelContext& context) const {
    return context.optimizer(optimizer).minimize(
        loss, [](const VariableSpec& spec) { return spec.name.starts_with(Part::kScope); });
  }
};

class Combined {
 public:
  template <typename Options>
  Combined(const std::string& estimator, const Options& options, int64_t units) {
    const auto linear_columns = static_cast<double>(options.linear_feature_columns.size());
    check(estimator, linear_columns == 0, options.dnn_feature_columns.empty(),
          options.dnn_hidden_units);
    if (linear_columns > 0) {
      linear_ = {.part = LinearPart(estimator, options.linear_feature_columns, units,
                                    options.linear_sparse_combiner),
                 .optimizer = options.linear_optimizer.make(
                     estimator + ": linear_optimizer",
                     std::min(kLinearRateOfTwo, 1 / std::sqrt(linear_columns)))};
    }
    if (!options.dnn_feature_columns.empty()) {
      dnn_ = {
          .part = DnnPart(estimator,
                          {.prefix = "dnn_",
                           .feature_columns = options.dnn_feature_columns,
                           .hidden_units = options.dnn_hidden_units,
                           .activation_fn = options.dnn_activation_fn,
                           .dropout = options.dnn_dropout,
                           .batch_norm = options.batch_norm},
                          units),
          .optimizer = options.dnn_optimizer.make(estimator + ": dnn_optimizer", kDnnRateOfTwo)};
    }
    if (!linear_ || !dnn_ || linear_->optimizer.name() != dnn_->optimizer.name()) return;
    // Two optimizers of one model need two names.
    linear_->optimizer = linear_->optimizer.named("linear_" + linear_->optimizer.name());
    dnn_->optimizer = dnn_->optimizer.named("dnn_" + dnn_->optimizer.name());
  }

  Tensor logits(const Features& features, ModelContext& context) const {
    if (!linear_) return dnn_->part.logits(features, context);
    const Tensor linear = linear_->part.logits(features, context);
    return dnn_ ? linear + dnn_->part.logits(features, context) : linear;
  }

  optim::TrainOp minimize(const Tensor& loss, ModelContext& context) const {
    std::vector<optim::TrainOp> both;
    if (linear_) both.push_back(linear_->minimize(loss, context));
    if (dnn_) both.push_back(dnn_->minimize(loss, context));
    return optim::group(std::move(both));
  }

 private:
  static constexpr double kLinearRateOfTwo = 0.005;
  static constexpr double kDnnRateOfTwo = 0.001;

  static void check(const std::string& estimator, bool no_linear, bool no_dnn,
                    const std::vector<int64_t>& units) {
    if (no_dnn && !units.empty()) {
      throw invalid_argument(
          fmt::format("{}: dnn_hidden_units is [{}] and dnn_feature_columns is empty", estimator,
                      fmt::join(units, ", ")),
          "give the network its columns, or leave out both");
    }
    if (no_linear && no_dnn) {
      throw invalid_argument(
          fmt::format("{}: linear_feature_columns and dnn_feature_columns are "
                      "empty; at least one of them must have columns",
                      estimator));
    }
  }

  std::optional<Trained<LinearPart>> linear_;
  std::optional<Trained<DnnPart>> dnn_;
};

template <typename Options>
Estimator make_combined(const std::string& estimator, const Head& head, const Options& options,
                        RunConfig config) {
  const ModelFn model = [head, combined = Combined(estimator, options, head.logits_dimension())](
                            const Features& features, const Labels& labels, Mode,
                            ModelContext& context) {
    return head.create_estimator_spec(
        context, features, labels, combined.logits(features, context),
        {.train_op_fn = [&](const Tensor& loss) { return combined.minimize(loss, context); }});
  };
  return Estimator(model, std::move(config));
}

}  // namespace

Estimator DNNLinearCombinedEstimator(const Head& head,
                                     const DNNLinearCombinedEstimatorOptions& options,
                                     RunConfig config) {
  return make_combined("DNNLinearCombinedEstimator", head, options, std::move(config));
}

Estimator DNNLinearCombinedClassifier(const DNNLinearCombinedClassifierOptions& options,
                                      RunConfig config) {
  constexpr const char* kName = "DNNLinearCombinedClassifier";
  return make_combined(kName,
                       internal::classifier_head(kName, options.n_classes, options.weight_column,
                                                 options.label_vocabulary, options.loss_reduction),
                       options, std::move(config));
}

Estimator DNNLinearCombinedRegressor(const DNNLinearCombinedRegressorOptions& options,
                                     RunConfig config) {
  constexpr const char* kName = "DNNLinearCombinedRegressor";
  return make_combined(kName,
                       internal::regressor_head(kName, options.label_dimension,
                                                options.weight_column, options.loss_reduction),
                       options, std::move(config));
}

}  // namespace muster::inline v0_1
