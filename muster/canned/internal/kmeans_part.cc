#include "muster/canned/internal/kmeans_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/canned/internal/center_sums.h"
#include "muster/canned/internal/choose_centers.h"
#include "muster/canned/internal/error_context.h"
#include "muster/layers/initializers.h"
#include "muster/metrics/mean.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/hook.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr const char* kKMeans = "KMeansClustering";

[[noreturn]] void refuse_option(const std::string& option, const std::string& value,
                                const std::string& allowed, const std::string& hint = {}) {
  throw invalid_argument(
      fmt::format("{}: {} is {}; it must be {}", kKMeans, option, value, allowed), hint);
}

void check_options(const KMeansOptions& options) {
  const auto* tensor = std::get_if<Tensor>(&options.initial_clusters);
  if (const auto* name = std::get_if<std::string>(&options.initial_clusters)) {
    if (*name != "random" && *name != "kmeans_plus_plus") {
      throw unknown_name(std::string(kKMeans) + ": its choice of initial_clusters", "name", *name,
                         {"random", "kmeans_plus_plus"}, "or give centers, or a function");
    }
  } else if (tensor != nullptr) {
    if (!tensor->defined() || tensor->dim() != 2 || tensor->size(0) < 1 || tensor->size(1) < 1 ||
        !tensor->is_floating_point()) {
      refuse_option("initial_clusters", describe(*tensor), "floats [clusters, numbers of a point]");
    }
    if (!at::isfinite(*tensor).all().item<bool>())
      refuse_option("initial_clusters", "not finite", "finite numbers");
  } else if (!std::get<2>(options.initial_clusters)) {
    refuse_option("initial_clusters", "an empty function", "one that can be called");
  }
  if (tensor == nullptr && options.num_clusters < 1)
    refuse_option("num_clusters", fmt::format("{}", options.num_clusters), "at least 1");
  if (options.distance_metric != "squared_euclidean" && options.distance_metric != "cosine") {
    throw unknown_name(std::string(kKMeans) + ": its choice of distances", "distance_metric",
                       options.distance_metric, {"squared_euclidean", "cosine"});
  }
  if (options.mini_batch_steps_per_iteration < 1) {
    refuse_option("mini_batch_steps_per_iteration",
                  fmt::format("{}", options.mini_batch_steps_per_iteration), "at least 1");
  }
  const auto& tolerance = options.relative_tolerance;
  if (tolerance && !(*tolerance > 0 && std::isfinite(*tolerance)))
    refuse_option("relative_tolerance", fmt::format("{}", *tolerance), "more than 0 and finite",
                  "leave it unset to train until max_steps");
}

// [rows] or [rows, numbers] as float32 [rows, numbers].
Tensor as_points(const Value& value, const std::string& what) {
  if (value.is_tensor() && value.tensor().dim() == 1)
    return as_points(value.tensor().unsqueeze(1), what);
  if (!value.is_tensor() || value.tensor().dim() != 2 || value.tensor().size(1) < 1) {
    throw invalid_argument(fmt::format("{}: {} {}; points are numbers, [rows] or [rows, numbers]",
                                       kKMeans, what, value.describe()),
                           "feature_columns make numbers of texts");
  }
  return value.tensor().to(at::kFloat);
}

// Where the model function says that the run has converged, on the replica that can stop it.
struct Stopper {
  std::optional<RunControl> control{};
};

class StopHook final : public Hook {
 public:
  explicit StopHook(std::shared_ptr<Stopper> stopper) : stopper_(std::move(stopper)) {}
  void begin(const RunInfo& info) override { stopper_->control = info.control; }
  void end(int64_t) override { stopper_->control.reset(); }
  void on_error(const Error&) override { stopper_->control.reset(); }

 private:
  std::shared_ptr<Stopper> stopper_;
};

std::shared_ptr<Stopper> stopper_of(ModelContext& context) {
  std::shared_ptr<void>& kept = context.kept(kKMeans);
  if (kept == nullptr) kept = std::make_shared<Stopper>();
  return std::static_pointer_cast<Stopper>(kept);
}

// The rows of all replicas, in their order, on each of them: the others' places are 0 in a sum.
Tensor gathered(const Tensor& points, const CallContext& calls) {
  if (calls.num_replicas() == 1) return points;
  const Tensor rows =
      calls.sum_over_replicas(at::full({1}, points.size(0), points.options().dtype(at::kDouble)));
  const int64_t first = calls.first_row(points.size(0));
  const Tensor all =
      at::zeros({static_cast<int64_t>(rows.item<double>()), points.size(1)}, points.options());
  all.slice(0, first, first + points.size(0)).copy_(points);
  return calls.sum_over_replicas(all);
}

}  // namespace

KMeansPart::KMeansPart(const KMeansOptions& options)
    : options_((check_options(options), options)),
      num_clusters_(options.num_clusters),
      cosine_(options.distance_metric == "cosine"),
      several_steps_(options.use_mini_batch && options.mini_batch_steps_per_iteration > 1) {
  if (auto* given = std::get_if<Tensor>(&options_.initial_clusters)) {
    *given = given->detach().to(at::kCPU, at::kFloat).clone();
    if (cosine_) *given = normalized(*given);
    num_clusters_ = given->size(0);
  }
  if (options_.feature_columns.empty()) return;
  columns_ = with_error_context(kKMeans, [&] {
    return DenseFeatures(options_.feature_columns, {.trainable = false, .name = "input_layer"});
  });
}

Tensor KMeansPart::points_of(const Features& features, ModelContext& context) const {
  const std::vector<std::string> keys = features.keys();
  if (columns_) {
    const LayerInputs given =
        with_error_context(kKMeans, [&] { return columns_->inputs(features); });
    return context.model("kmeans", [this] { return *columns_; })(given).tensors.front();
  }
  if (features.element().is_leaf())
    return as_points(features.element().value(), "the features are");
  std::vector<Tensor> parts;
  for (const std::string& key : keys)
    parts.push_back(as_points(features.value(key), "the feature '" + key + "' is"));
  if (parts.empty()) {
    throw invalid_argument(fmt::format("{}: the features are {}, which is not a tensor and no dict",
                                       kKMeans, features.element().describe()),
                           "an element of the input is the features, or (features, labels)");
  }
  return at::cat(parts, 1);
}

KMeansPart::State KMeansPart::state_of(ModelContext& context, int64_t numbers) const {
  const auto own = [&](const char* name, const Shape& shape, DType dtype,
                       const Initializer& begin) {
    return context.variable(
        {.name = name, .shape = shape, .dtype = dtype, .initializer = begin, .trainable = false});
  };
  const auto* given = std::get_if<Tensor>(&options_.initial_clusters);
  if (given != nullptr && given->size(1) != numbers) {
    throw invalid_argument(fmt::format("{}: initial_clusters is {}, and points have {} numbers",
                                       kKMeans, describe(*given), numbers),
                           "a center has as many numbers as a point");
  }
  const Shape shape{num_clusters_, numbers};
  const Initializer centers =
      given == nullptr ? initializers::zeros()
                       : [value = *given](const Shape&, DType, RandomKey) { return value.clone(); };
  State state;
  state.clusters = own("clusters", shape, at::kFloat, centers);
  state.initialized =
      own("initialized", {}, at::kLong,
          initializers::constant(given == nullptr ? 0 : static_cast<double>(num_clusters_)));
  if (options_.use_mini_batch) {
    state.counts = own("cluster_counts", {num_clusters_}, at::kDouble,
                       initializers::constant(several_steps_ ? 0 : 1));
  }
  if (several_steps_) {
    state.updated = own("clusters_updated", shape, at::kFloat, centers);
    state.update_in_steps =
        own("update_in_steps", {}, at::kLong,
            initializers::constant(static_cast<double>(options_.mini_batch_steps_per_iteration)));
  }
  if (options_.relative_tolerance)
    state.previous_loss = own("previous_loss", {}, at::kDouble, initializers::constant(-1));
  return state;
}

Tensor KMeansPart::directions(const Tensor& clusters) const {
  return cosine_ ? normalized(clusters) : clusters;
}

Tensor KMeansPart::distances(const Tensor& points, const Tensor& clusters,
                             const Tensor& initialized) const {
  const Tensor centers = directions(clusters);
  Tensor all;
  if (cosine_) {
    all = 1 - points.matmul(centers.t());
  } else {
    // Around the middle of the centers, where fewer digits cancel.
    const Tensor middle = centers.mean(0);
    const Tensor x = points - middle, c = centers - middle;
    all = (x.square().sum(1, true) - 2 * x.matmul(c.t()) + c.square().sum(1)).clamp_min(0);
  }
  const Tensor number = at::arange(num_clusters_, initialized.options());
  return all.masked_fill(number.ge(initialized.clamp_min(1)),
                         std::numeric_limits<double>::infinity());
}

Tensor KMeansPart::choose(const Tensor& points, int64_t missing, ModelContext& context) const {
  const Tensor all = gathered(points, context.calls()).cpu();
  const RandomKey key =
      derive_key(context.seed(), {id_of("clusters"), static_cast<uint64_t>(context.global_step())});
  Tensor chosen;
  if (const auto* function = std::get_if<2>(&options_.initial_clusters)) {
    chosen = (*function)(all, missing);
    if (!chosen.defined() || chosen.dim() != 2 || chosen.size(0) > missing ||
        chosen.size(1) != points.size(1)) {
      throw invalid_argument(
          fmt::format("{}: the function initial_clusters gave {}; it must give [0 to {}, {}]",
                      kKMeans, describe(chosen), missing, points.size(1)));
    }
    chosen = chosen.to(at::kFloat);
    if (cosine_) chosen = normalized(chosen);
  } else if (std::get<std::string>(options_.initial_clusters) == "random") {
    chosen = random_centers(all, missing, key);
  } else {
    if (all.size(0) < missing) {
      throw invalid_argument(
          fmt::format("{}: the first batch has {} points, and kmeans_plus_plus chooses {} of them",
                      kKMeans, all.size(0), missing),
          "make batches larger, or choose initial_clusters = \"random\"");
    }
    chosen = plus_plus_centers(all, missing, options_.kmeans_plus_plus_num_retries, key);
  }
  return chosen.to(points.device());
}

KMeansPart::State KMeansPart::next(State state, const Tensor& sums) const {
  const Tensor counts = sums.select(1, sums.size(1) - 1);
  const Tensor totals = sums.slice(1, 0, sums.size(1) - 1);
  // A center that is nearest to no point does not move.
  const Tensor moved = counts.gt(0).unsqueeze(1);
  if (!options_.use_mini_batch) {
    const Tensor means = (totals / counts.clamp_min(1).unsqueeze(1)).to(at::kFloat);
    state.clusters = at::where(moved, cosine_ ? normalized(means) : means, state.clusters);
    return state;
  }
  Tensor& centers = several_steps_ ? state.updated : state.clusters;
  const Tensor all = state.counts + counts, wide = centers.to(at::kDouble);
  const Tensor step = (totals - counts.unsqueeze(1) * wide) / all.clamp_min(1).unsqueeze(1);
  centers = at::where(moved, (wide + step).to(at::kFloat), centers);
  state.counts = all;
  if (!several_steps_) return state;
  state.update_in_steps = state.update_in_steps - 1;
  if (state.update_in_steps.item<int64_t>() > 0) return state;
  if (cosine_) state.updated = normalized(state.updated);
  state.clusters = state.updated;
  state.counts = at::zeros_like(state.counts);
  state.update_in_steps.fill_(options_.mini_batch_steps_per_iteration);
  return state;
}

EstimatorSpec KMeansPart::train(const Tensor& points, State state, ModelContext& context) const {
  const State variables = state;
  int64_t initialized = state.initialized.item<int64_t>();
  if (initialized < num_clusters_) {
    const Tensor chosen = choose(points, num_clusters_ - initialized, context);
    const int64_t before = initialized;
    initialized += chosen.size(0);
    state.clusters = state.clusters.clone();
    state.clusters.slice(0, before, initialized).copy_(chosen);
    state.initialized = at::full_like(state.initialized, initialized);
    if (several_steps_) state.updated = state.clusters;
  }
  const Tensor centers = directions(state.clusters.slice(0, 0, std::max<int64_t>(initialized, 1)));
  const Tensor own =
      sums_of(points, centers, nearest_centers(points, centers, cosine_), cosine_, num_clusters_);
  const Tensor loss = own[0][0].clone();
  const Tensor sums = context.calls().sum_over_replicas(own);
  if (initialized == num_clusters_) state = next(state, sums.slice(0, 1));
  const auto stopper = stopper_of(context);
  if (options_.relative_tolerance && initialized == num_clusters_) {
    const auto now = sums[0][0].item<double>();
    const auto before = variables.previous_loss.item<double>();
    const bool converged =
        before >= 0 && std::abs(now - before) / (1 + before) < *options_.relative_tolerance;
    if (converged && stopper->control) stopper->control->request_stop();
    state.previous_loss = at::full_like(state.previous_loss, now);
  }
  EstimatorSpec spec;
  spec.loss = loss;
  spec.loss_reduction = ReduceOp::kSum;
  spec.train_op.updates.push_back([variables, state] {
    const at::NoGradGuard no_grad;
    const auto set = [](const Tensor& variable, const Tensor& value) {
      if (variable.defined() && !variable.is_same(value)) variable.copy_(value);
    };
    set(variables.clusters, state.clusters);
    set(variables.initialized, state.initialized);
    set(variables.counts, state.counts);
    set(variables.updated, state.updated);
    set(variables.update_in_steps, state.update_in_steps);
    set(variables.previous_loss, state.previous_loss);
  });
  if (options_.relative_tolerance)
    spec.training_hooks.push_back(std::make_shared<StopHook>(stopper));
  context.summary().scalar("loss/raw", loss.to(at::kFloat));
  return spec;
}

EstimatorSpec KMeansPart::operator()(const Features& features, ModelContext& context) const {
  const at::NoGradGuard no_grad;
  Tensor points = points_of(features, context).detach();
  if (cosine_) points = normalized(points);
  const State state = state_of(context, points.size(1));
  if (state.clusters.size(1) != points.size(1)) {
    throw invalid_argument(fmt::format("{}: points have {} numbers, and centers {}", kKMeans,
                                       points.size(1), state.clusters.size(1)));
  }
  if (context.mode() == Mode::kTrain) return train(points, state, context);
  const Tensor all = distances(points, state.clusters, state.initialized);
  const Tensor index = all.argmin(1);
  EstimatorSpec spec;
  spec.predictions = {{"all_distances", all}, {"cluster_index", index}};
  if (context.mode() == Mode::kPredict) {
    spec.export_outputs = {{"all_distances", PredictOutput(all)},
                           {"cluster_index", PredictOutput(index)},
                           {kServingDefault, PredictOutput(index)}};
    return spec;
  }
  const Tensor least =
      distances_to(points, directions(state.clusters).index_select(0, index), cosine_)
          .to(at::kDouble);
  spec.loss = least.sum();
  spec.loss_reduction = ReduceOp::kSum;
  spec.eval_metrics["score"] = metrics::sum(least);
  return spec;
}

}  // namespace muster::inline v0_1::internal
