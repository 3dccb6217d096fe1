#include "muster/heads/head.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/heads/internal/arguments.h"
#include "muster/metrics/mean.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {
namespace {

std::string title_of(const HeadRule& rule) { return internal::title_of(rule.kind(), rule.name()); }

// Returns the sum of the scalars, and an undefined tensor without any.
Tensor sum_of(const HeadRule& rule, const std::vector<Tensor>& losses) {
  Tensor sum;
  for (size_t i = 0; i < losses.size(); ++i) {
    const Tensor& loss = losses[i];
    if (!loss.defined() || loss.numel() != 1 || !loss.is_floating_point()) {
      internal::refuse(title_of(rule), fmt::format("regularization_losses[{}]", i), describe(loss),
                       "a floating scalar");
    }
    sum = sum.defined() ? sum + loss.reshape({}) : loss.reshape({});
  }
  return sum;
}

optim::TrainOp train_op_of(const HeadRule& rule, ModelContext& context, const Tensor& loss,
                           const HeadTraining& training) {
  const char* both = "give HeadTraining::optimizer or HeadTraining::train_op_fn, one of the two";
  if (training.optimizer && training.train_op_fn) {
    throw invalid_argument(fmt::format("{}: there are an optimizer, {}, and a train_op_fn",
                                       title_of(rule), training.optimizer->name()),
                           both);
  }
  if (!training.optimizer && !training.train_op_fn) {
    throw invalid_argument(
        fmt::format("{}: there is no optimizer and no train_op_fn in mode train", title_of(rule)),
        both);
  }
  if (training.train_op_fn) return training.train_op_fn(loss);
  return context.optimizer(*training.optimizer).minimize(loss);
}

// The key of a metric or summary of this head.
std::string key_of(const HeadRule& rule, const char* key) {
  return rule.name().empty() ? key : fmt::format("{}/{}", key, rule.name());
}

constexpr const char* kRegularization = "regularization_loss";

// Returns the sum of the variables' penalties and of the given ones, and an undefined tensor
// without any.
Tensor all_penalties(const HeadRule& rule, const ModelContext& context,
                     const HeadTraining& training) {
  const at::NoGradGuard no_grad;
  const Tensor of_variables = regularization_loss(context.variables());
  const Tensor given = sum_of(rule, training.regularization_losses);
  if (!of_variables.defined() || !given.defined())
    return of_variables.defined() ? of_variables : given;
  return of_variables + given.to(of_variables);
}

// Shows the losses of a step, in addition to the "loss" that each run shows.
void show_losses(const HeadRule& rule, ModelContext& context, const HeadScore& score,
                 const HeadTraining& training) {
  if (!context.summary().due()) return;
  const Tensor penalties = all_penalties(rule, context, training);
  if (penalties.defined()) context.summary().scalar(key_of(rule, kRegularization), penalties);
  if (!rule.name().empty()) context.summary().scalar(key_of(rule, "loss"), score.loss);
  for (const auto& [head, loss] : score.losses_of_heads)
    context.summary().scalar("loss/" + head, loss);
}

}  // namespace

std::string Logits::describe() const {
  if (!is_by_head()) return muster::describe(tensor_);
  std::vector<std::string> each;
  for (const auto& [name, tensor] : by_head_)
    each.push_back(name + ": " + muster::describe(tensor));
  return "{" + join(each, ", ") + "}";
}

Head::Head(std::shared_ptr<const HeadRule> rule) : rule_(std::move(rule)) {
  if (rule_ == nullptr) {
    throw invalid_argument("Head: there is no rule",
                           "make a head by BinaryClassHead(), RegressionHead() and so on");
  }
  internal::check_reduction(title_of(*rule_), rule_->loss_reduction());
}

HeadScore Head::score(const Features& features, const Labels& labels, const Logits& logits,
                      const std::vector<Tensor>& regularization_losses, bool with_metrics) const {
  HeadScore score = rule_->score(features, labels, logits, with_metrics);
  const Tensor penalty = sum_of(*rule_, regularization_losses);
  if (!penalty.defined()) return score;
  score.loss = score.loss + penalty.to(score.loss.device(), score.loss.scalar_type());
  if (with_metrics) score.metrics[key_of(*rule_, kRegularization)] = metrics::mean(penalty);
  return score;
}

Tensor Head::loss(const Features& features, const Labels& labels, const Logits& logits,
                  const std::vector<Tensor>& regularization_losses) const {
  return score(features, labels, logits, regularization_losses, /*with_metrics=*/false).loss;
}

std::map<std::string, Metric> Head::metrics(
    const Features& features, const Labels& labels, const Logits& logits,
    const std::vector<Tensor>& regularization_losses) const {
  return score(features, labels, logits, regularization_losses, /*with_metrics=*/true).metrics;
}

EstimatorSpec Head::create_estimator_spec(ModelContext& context, const Features& features,
                                          const Labels& labels, const Logits& logits,
                                          const HeadTraining& training) const {
  EstimatorSpec spec;
  spec.loss_reduction = losses::over_replicas(rule_->loss_reduction());
  if (context.mode() == Mode::kPredict) {
    spec.predictions = predictions(logits);
    spec.export_outputs = export_outputs(logits);
    const std::string mask = rule_->sequence_mask_key();
    if (!mask.empty()) spec.predictions[mask] = features[mask];
    return spec;
  }
  const bool evaluates = context.mode() == Mode::kEval;
  HeadScore score =
      this->score(features, labels, logits, training.regularization_losses, evaluates);
  spec.loss = score.loss;
  spec.loss_weight = score.loss_weight;
  if (!evaluates) {
    spec.train_op = train_op_of(*rule_, context, spec.loss, training);
    show_losses(*rule_, context, score, training);
    return spec;
  }
  spec.predictions = predictions(logits);
  spec.eval_metrics = std::move(score.metrics);
  const Tensor penalties = all_penalties(*rule_, context, training);
  if (penalties.defined())
    spec.eval_metrics[key_of(*rule_, kRegularization)] = metrics::mean(penalties);
  return spec;
}

Strings Head::class_names(const Tensor& class_ids) const {
  const std::vector<std::string> names = classes();
  const auto count = static_cast<int64_t>(names.size());
  if (names.empty()) {
    throw invalid_argument(fmt::format("{}: class_names: there are no classes", title_of(*rule_)),
                           "ask a head that has some; of a MultiHead, one of its heads");
  }
  if (!class_ids.defined() || !at::isIntegralType(class_ids.scalar_type(), /*includeBool=*/false)) {
    internal::refuse(title_of(*rule_), "class_ids", describe(class_ids), "of an integer dtype");
  }
  internal::check_range(title_of(*rule_), "class_ids", class_ids, 0, static_cast<double>(count - 1),
                        fmt::format("in [0, {})", count));
  const Tensor ids = class_ids.to(at::kCPU, at::kLong).contiguous();
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    bytes += names[static_cast<size_t>(ids.data_ptr<int64_t>()[i])];
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(ids.sizes().vec(), std::move(offsets), std::move(bytes));
}

}  // namespace muster::inline v0_1
