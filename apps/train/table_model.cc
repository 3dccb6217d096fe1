#include "apps/train/table_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/canned/dnn_linear_combined.h"
#include "muster/canned/explain.h"
#include "muster/checkpoint/manager.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/heads/binary_class_head.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/regression_head.h"
#include "muster/optim/adam.h"
#include "muster/optim/ftrl.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/stop_signal.h"
#include "muster/trees/boosted_trees.h"

namespace muster::app {
namespace {

constexpr int64_t kPredictBatch = 2048;

int64_t step_of(const std::string& model_dir) {
  const auto loaded = CheckpointManager(model_dir).load_latest();
  return loaded ? loaded->checkpoint.global_step : 0;
}

// A long computation ends here when the process is asked to stop.
void check_stop() {
  if (stop_signal() == 0) return;
  throw Error(ErrorKind::kCancelled, fmt::format("stopped by {}", stop_signal_name()),
              "the same command continues");
}

// Joins a model's predictions for all batches.
template <typename Predictions>
Tensor joined(Predictions predictions, const std::string& key) {
  std::vector<Tensor> parts;
  while (const auto batch = predictions.next()) {
    check_stop();
    parts.push_back(batch->at(key).to(kFloat32));
  }
  return torch::cat(parts);
}

// [rows, classes], or [rows] of numbers.
std::string key_of(const TablePlan& plan) {
  return plan.classifies() ? "probabilities" : "predictions";
}
Tensor shaped(const TablePlan& plan, const Tensor& values) {
  return plan.classifies() ? values : values.reshape({-1});
}

EncodedTable without_labels(const EncodedTable& table) {
  EncodedTable made = table;
  made.labels = Tensor();
  made.weights = Tensor();
  return made;
}

Tensor nothing(const TablePlan& plan) {
  return plan.classifies() ? torch::empty({0, static_cast<int64_t>(plan.classes.size())})
                           : torch::empty({0});
}

class TreesModel final : public TableModel {
 public:
  TreesModel(const TablePlan& plan, const TableModelOptions& options, const RunConfig& config)
      : plan_(plan) {
    const bool small = plan.rows < 2000;
    depth_ = small ? 4 : 6;
    n_trees_ = options.trees.value_or(small ? 100 : 200);
    std::vector<std::string> names, categories;
    for (const PlannedColumn& column : plan.columns) {
      names.push_back(column.name);
      if (column.kind == ColumnKind::kCategory) categories.push_back(column.name);
    }
    if (plan.classifies()) {
      model_ = std::make_unique<BoostedTreesClassifier>(
          BoostedTreesClassifierOptions{.n_classes = static_cast<int64_t>(plan.classes.size()),
                                        .weight_column = plan.weight,
                                        .label_vocabulary = plan.classes,
                                        .n_trees = n_trees_,
                                        .max_depth = depth_,
                                        .l2_regularization = 1,
                                        .min_node_weight = 1,
                                        .center_bias = plan.classes.size() == 2,
                                        .feature_names = names,
                                        .categorical_features = categories},
          config);
    } else {
      model_ = std::make_unique<BoostedTreesRegressor>(
          BoostedTreesRegressorOptions{.weight_column = plan.weight,
                                       .n_trees = n_trees_,
                                       .max_depth = depth_,
                                       .l2_regularization = 1,
                                       .min_node_weight = 1,
                                       .center_bias = true,
                                       .feature_names = names,
                                       .categorical_features = categories},
          config);
    }
  }

  std::string describe() const override {
    return fmt::format("boosted trees: {} trees{} of at most {} questions a row", n_trees_,
                       plan_.classes.size() > 2 ? " for each class" : "", depth_);
  }
  TrainResult train(const EncodedTable& table) override {
    return model_->train([&] { return table.dataset(plan_).batch(kPredictBatch); });
  }
  Tensor predict(const EncodedTable& table) override {
    if (table.rows == 0) return nothing(plan_);
    const EncodedTable rows = without_labels(table);
    const InputFn input = [&] { return rows.dataset(plan_).batch(kPredictBatch); };
    return shaped(plan_, joined(model_->predict(input, {.predict_keys = {key_of(plan_)},
                                                        .yield_single_examples = false}),
                                key_of(plan_)));
  }
  Explanation explain() override { return model_->explain(); }
  std::string export_model(const std::string& export_dir) override {
    return model_->export_model(export_dir, receiver_of(plan_)).value();
  }
  bool is_chief() const override { return model_->is_chief(); }
  int64_t global_step() const override { return step_of(model_->model_dir()); }

 private:
  const TablePlan plan_;
  int64_t n_trees_ = 0, depth_ = 0;
  std::unique_ptr<BoostedTrees> model_;
};

// Numbers below all others represent missing values: they have a bucket of their own.
constexpr double kMissingNumber = -3e38, kMissingBoundary = -1e38;

DType dtype_of(const PlannedColumn& column) { return column.in_double ? kFloat64 : kFloat32; }

// The columns that a linear model and a network see.
struct Columns {
  std::vector<FeatureColumn> wide, deep;
  std::set<std::string> ids;  // features that are ids already

  Columns(const TablePlan& plan, bool with_deep) {
    using namespace feature_column;  // NOLINT(google-build-using-namespace)
    for (const PlannedColumn& column : plan.columns) {
      if (column.kind == ColumnKind::kCategory) {
        const auto count = static_cast<int64_t>(column.words.size()) + 1;
        const FeatureColumn id = categorical_column_with_identity(column.name, count);
        ids.insert(column.name);
        wide.push_back(id);
        if (!with_deep) continue;
        constexpr int64_t kFewWords = 10, kWidest = 16;
        const auto root = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
        deep.push_back(count <= kFewWords ? indicator_column(id)
                                          : embedding_column(id, std::min(root + 1, kWidest)));
        continue;
      }
      if (!bounds_of(column).empty()) wide.push_back(buckets_of(column));
      if (!with_deep) continue;
      if (column.kind == ColumnKind::kFew) deep.push_back(buckets_of(column));
      deep.push_back(scaled(column));
    }
  }

  static std::vector<double> bounds_of(const PlannedColumn& column) {
    std::vector<double> bounds = column.boundaries;
    if (column.missing > 0) bounds.insert(bounds.begin(), kMissingBoundary);
    return bounds;
  }
  static FeatureColumn buckets_of(const PlannedColumn& column) {
    return feature_column::bucketized_column(
        feature_column::numeric_column(
            column.name,
            {.dtype = dtype_of(column),
             .normalizer_fn = [](const Tensor& x) { return x.nan_to_num(kMissingNumber); }}),
        bounds_of(column));
  }
  static FeatureColumn scaled(const PlannedColumn& column) {
    return feature_column::numeric_column(
        column.name,
        {.dtype = dtype_of(column),
         .normalizer_fn = [mean = column.mean, deviation = column.deviation](const Tensor& x) {
           constexpr double kFarthest = 5;  // an outlier must not decide alone
           return ((x - mean) / deviation).clamp(-kFarthest, kFarthest).nan_to_num(0.0);
         }});
  }
};

// A model function that passes ids under the names where the columns look for their resolved
// values.
ModelFn with_ids(ModelFn inner, const std::set<std::string>& ids) {
  return [inner = std::move(inner), ids](const Features& features, const Labels& labels, Mode mode,
                                         ModelContext& context) {
    std::vector<std::pair<std::string, Element>> entries;
    for (const std::string& key : features.keys()) {
      if (ids.contains(key)) {
        entries.emplace_back(key + "/ids", features[key].unsqueeze(1));
      } else {
        entries.emplace_back(key, features[key]);
      }
    }
    return inner(Features(Element::dict(std::move(entries))), labels, mode, context);
  };
}

Head head_of(const TablePlan& plan) {
  if (plan.classes.size() == 2)
    return BinaryClassHead({.weight_column = plan.weight, .label_vocabulary = plan.classes});
  if (plan.classifies()) {
    return MultiClassHead({.n_classes = static_cast<int64_t>(plan.classes.size()),
                           .weight_column = plan.weight,
                           .label_vocabulary = plan.classes});
  }
  // Logits are of size 1, whatever the label is counted in.
  const double mean = plan.label_mean, deviation = plan.label_deviation;
  return RegressionHead(
      {.weight_column = plan.weight,
       .loss_fn = [=](const Tensor& labels, const Tensor& logits,
                      const Features&) { return ((labels - mean) / deviation - logits).square(); },
       .inverse_link_fn = [=](const Tensor& logits) { return logits * deviation + mean; }});
}

class WideAndDeepModel final : public TableModel {
 public:
  WideAndDeepModel(const TablePlan& plan, const TableModelOptions& options, const RunConfig& config)
      : plan_(plan),
        with_deep_(plan.model == "wide_and_deep"),
        columns_(plan, with_deep_),
        batch_(plan.rows < 4000 ? 32 : 128) {
    // So many steps, or passes, as a table of this size needs.
    constexpr int64_t kSteps = 3000, kFewestPasses = 8, kMostPasses = 60;
    const int64_t steps = std::max<int64_t>(1, (plan.rows + batch_ - 1) / batch_);
    epochs_ = options.epochs.value_or(
        std::clamp((kSteps + steps - 1) / steps, kFewestPasses, kMostPasses));
    max_steps_ = steps * epochs_;
    RunConfig own = config;
    own.save_checkpoints_steps = std::max<int64_t>(max_steps_ / 4, 500);
    const Estimator inner = make(own);
    model_ = std::make_unique<Estimator>(with_ids(inner.model_fn(), columns_.ids), own);
  }

  std::string describe() const override {
    return fmt::format("{}: {} passes over the rows, {} steps of {} rows",
                       with_deep_ ? "wide and deep" : "a linear model", epochs_, max_steps_,
                       batch_);
  }
  TrainResult train(const EncodedTable& table) override {
    return model_->train(
        [&] { return table.dataset(plan_).shuffle(table.rows).repeat().global_batch(batch_); },
        {.max_steps = max_steps_});
  }
  Tensor predict(const EncodedTable& table) override {
    if (table.rows == 0) return nothing(plan_);
    const EncodedTable rows = without_labels(table);
    const InputFn input = [&] { return rows.dataset(plan_).batch(kPredictBatch); };
    return shaped(plan_, joined(model_->predict(input, {.predict_keys = {key_of(plan_)},
                                                        .yield_single_examples = false}),
                                key_of(plan_)));
  }
  Explanation explain() override {
    Explanation all = muster::explain(*model_, columns_.wide, {.classes = plan_.classes});
    for (Explanation::Row& row : all.rows) name_value(row);
    return all;
  }
  std::string export_model(const std::string& export_dir) override {
    return model_->export_model(export_dir, receiver_of(plan_)).value();
  }
  bool is_chief() const override { return model_->is_chief(); }
  int64_t global_step() const override { return step_of(model_->model_dir()); }

 private:
  Estimator make(const RunConfig& config) const {
    constexpr double kWideRate = 0.05, kDeepRate = 0.001;
    DNNLinearCombinedEstimatorOptions options{
        .linear_feature_columns = columns_.wide,
        .linear_optimizer = optim::ftrl({.learning_rate = kWideRate})};
    if (with_deep_) {
      options.dnn_feature_columns = columns_.deep;
      options.dnn_optimizer = optim::adam({.learning_rate = kDeepRate});
      options.dnn_hidden_units = {64, 32};
    }
    return DNNLinearCombinedEstimator(head_of(plan_), options, config);
  }

  // Replaces ids by words, bucket numbers by ranges, and the columns' names by the table's.
  void name_value(Explanation::Row& row) const {
    for (const PlannedColumn& column : plan_.columns) {
      if (column.kind == ColumnKind::kCategory) {
        if (row.column != column.name) continue;
        const auto id = static_cast<size_t>(parse_int(row.value).value());
        row.value = id >= column.words.size()  ? "(other)"
                    : column.words[id].empty() ? "(missing)"
                                               : column.words[id];
        return;
      }
      if (row.column != column.name + "_bucketized") continue;
      row.column = column.name;
      const std::vector<std::string> names = Columns::buckets_of(column).value_names();
      const auto bucket = static_cast<size_t>(std::ranges::find(names, row.value) - names.begin());
      const size_t first = column.missing > 0 ? 1 : 0;
      if (bucket < first) {
        row.value = "(missing)";
      } else if (column.kind == ColumnKind::kFew) {
        row.value = fmt::format("{}", column.steps.at(bucket - first));
      } else if (bucket == first && first > 0) {
        // Without the boundary in front of it.
        row.value = column.boundaries.empty() ? "(not missing)"
                                              : fmt::format("below {}", column.boundaries.front());
      }
      return;
    }
  }

  const TablePlan plan_;
  const bool with_deep_;
  const Columns columns_;
  const int64_t batch_;
  int64_t epochs_ = 0, max_steps_ = 0;
  std::unique_ptr<Estimator> model_;
};

}  // namespace

std::unique_ptr<TableModel> make_table_model(const TablePlan& plan,
                                             const TableModelOptions& options,
                                             const RunConfig& config) {
  if (plan.model == "boosted_trees") return std::make_unique<TreesModel>(plan, options, config);
  return std::make_unique<WideAndDeepModel>(plan, options, config);
}

ServingInputReceiver receiver_of(const TablePlan& plan) {
  std::map<std::string, ServingFeature> features;
  for (const PlannedColumn& column : plan.columns) {
    if (column.kind == ColumnKind::kCategory) {
      features[column.name] = {
          .dtype = kInt64,
          .texts = TextInput{column.words, static_cast<int64_t>(column.words.size())}};
    } else {
      features[column.name] = {.dtype = dtype_of(column), .may_be_missing = true};
    }
  }
  return raw_serving_input_receiver(std::move(features));
}

}  // namespace muster::app
