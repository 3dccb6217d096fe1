#include "muster/keras/internal/objective.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/keras/internal/structure.h"
#include "muster/metrics/mean.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras::internal {
namespace {

// Throws for a name that no output has.
template <typename Value>
void check_outputs(const std::map<std::string, Value>& by_name,
                   const std::vector<std::string>& outputs, const char* field) {
  for (const auto& [name, value] : by_name) {
    if (std::ranges::find(outputs, name) != outputs.end()) continue;
    throw unknown_name(fmt::format("compile: {}: the model", field), "output", name, outputs);
  }
}

// Weights of examples and of classes are multiplied.
Tensor weights_of(const Tensor& labels, const Tensor& sample_weight,
                  const std::vector<double>& class_weight) {
  if (class_weight.empty()) return sample_weight;
  const Tensor of_class = losses::class_weights(labels, class_weight).to(labels.device());
  if (!sample_weight.defined()) return of_class;
  return of_class * sample_weight.reshape(of_class.sizes());
}

// Runs `fn`; its errors name the output.
template <typename Fn>
auto told(const Fn& fn, const std::string& whose) {
  try {
    return fn();
  } catch (const Error& error) {
    throw error.with_context(whose + ": " + error.message());
  }
}

}  // namespace

Objective::Objective(const CompileOptions& options, std::vector<std::string> output_names)
    : output_names_(std::move(output_names)) {
  check_outputs(options.losses, output_names_, "losses");
  check_outputs(options.loss_weights, output_names_, "loss_weights");
  check_outputs(options.output_metrics, output_names_, "output_metrics");
  if (options.loss.defined() && !options.losses.empty()) {
    throw invalid_argument("compile: both loss and losses are given",
                           "give one loss for all outputs, or one for each in losses");
  }
  std::optional<losses::Reduction> reduction;
  for (const std::string& name : output_names_) {
    Part part{.name = name, .loss = options.loss};
    if (const auto own = options.losses.find(name); own != options.losses.end())
      part.loss = own->second;
    if (const auto weight = options.loss_weights.find(name); weight != options.loss_weights.end())
      part.weight = weight->second;
    if (part.loss.defined()) {
      if (reduction && *reduction != part.loss.reduction()) {
        throw invalid_argument("compile: the losses of the outputs have different reductions",
                               "take Reduction::kMean, or Reduction::kSum, for all of them");
      }
      reduction = part.loss.reduction();
      if (output_names_.size() > 1) {
        metric_names_.push_back(name + "_loss");
        better_.push_back(Better::kLower);
      }
    }
    add(part, options.metrics, /*weighted=*/false);
    if (const auto own = options.output_metrics.find(name); own != options.output_metrics.end())
      add(part, own->second, /*weighted=*/false);
    add(part, options.weighted_metrics, /*weighted=*/true);
    parts_.push_back(std::move(part));
  }
  if (!reduction) {
    throw invalid_argument(
        "compile: there is no loss",
        "name one, .loss = \"mse\"; of several outputs .losses = {{\"output\", \"mse\"}}");
  }
  reduction_ = losses::over_replicas(*reduction);
}

void Objective::add(Part& part, const std::vector<MetricChoice>& metrics, bool weighted) {
  for (const MetricChoice& metric : metrics) {
    const std::string name =
        output_names_.size() == 1 ? metric.name() : part.name + "_" + metric.name();
    if (name == "loss" || std::ranges::find(metric_names_, name) != metric_names_.end()) {
      throw invalid_argument(
          fmt::format("compile: two metrics are called \"{}\"", name),
          "give one another name: MetricChoice(\"name\", function); \"loss\" is that of the model");
    }
    metric_names_.push_back(name);
    better_.push_back(metric.better());
    part.metrics.push_back({metric, weighted});
  }
}

std::string Objective::describe() const {
  std::vector<std::string> parts;
  for (const Part& part : parts_) {
    std::string text = part.loss.defined() ? part.loss.name() : "none";
    if (part.loss.from_logits()) text += " of logits";
    if (part.weight != 1) text += fmt::format(" x {}", part.weight);
    for (const Choice& choice : part.metrics)
      text += fmt::format(", {}{}", choice.metric.name(), choice.weighted ? " (weighted)" : "");
    parts.push_back(part.name + ": " + text);
  }
  return join(parts, "; ");
}

Measured Objective::measure(const Batch& batch, const std::vector<Tensor>& outputs,
                            const std::vector<double>& class_weight) const {
  if (outputs.size() != parts_.size()) {
    throw invalid_argument(fmt::format("the model returned {} outputs; it should have {}: {}",
                                       outputs.size(), parts_.size(), join_quoted(output_names_)),
                           "name all of them in ModelOptions::output_names");
  }
  if (!batch.labels.defined()) {
    throw invalid_argument(
        "the data gives features without labels: " + batch.features.element().describe(),
        "give (features, labels); for a model that is to give what it was "
        "given, both are the same");
  }
  if (!class_weight.empty() && parts_.size() > 1) {
    throw invalid_argument("not supported: class_weight of a model with several outputs",
                           "give sample weights: (features, labels, weights)");
  }
  Measured measured;
  for (size_t i = 0; i < parts_.size(); ++i)
    measure_part(i, batch, outputs[i], class_weight, measured);
  return measured;
}

void Objective::measure_part(size_t index, const Batch& batch, const Tensor& output,
                             const std::vector<double>& class_weight, Measured& measured) const {
  const Part& part = parts_[index];
  if (!part.loss.defined() && part.metrics.empty()) return;
  const Tensor labels = part_of(batch.labels, output_names_, index, "the labels");
  const Tensor sample_weight =
      part_of(batch.weights, output_names_, index, "the sample weights", /*shared=*/true);
  const std::string whose =
      parts_.size() == 1 ? std::string() : fmt::format("output \"{}\": ", part.name);
  const Tensor weights = told([&] { return weights_of(labels, sample_weight, class_weight); },
                              whose + "the weights of examples");
  if (part.loss.defined()) {
    const Tensor loss = told([&] { return part.loss(labels, output, weights); },
                             fmt::format("{}the loss {}", whose, part.loss.name()));
    if (parts_.size() > 1) {
      const Tensor rows = torch::full({1}, static_cast<double>(batch.rows()));
      measured.metrics.push_back(metrics::mean(loss.detach().reshape({1}).to(at::kCPU), rows));
      (void)measured.metrics.back().state();
    }
    const Tensor share = part.weight == 1 ? loss : loss * part.weight;
    measured.loss = measured.loss.defined() ? measured.loss + share : share;
  }
  const torch::NoGradGuard no_grad;
  for (const Choice& choice : part.metrics) {
    measured.metrics.push_back(told(
        [&] {
          Metric metric =
              choice.metric(labels, output.detach(), choice.weighted ? weights : Tensor(),
                            part.loss.from_logits());
          (void)metric.state();  // here, on the replica's thread
          return metric;
        },
        fmt::format("{}the metric {}", whose, choice.metric.name())));
  }
}

}  // namespace muster::inline v0_1::keras::internal
