#include "apps/model/model_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

using Infos = std::map<std::string, TensorInfo>;

const Signature& default_of(const Servable& model) { return model.signature(kServingDefault); }

std::string list_of(const Infos& infos) {
  std::vector<std::string> all;
  for (const auto& [name, info] : infos) all.push_back(name + " " + info.describe());
  return join(all, ", ");
}

[[noreturn]] void refuse(const char* what, const Servable& a, const Infos& of_a, const Servable& b,
                         const Infos& of_b) {
  throw invalid_argument(fmt::format("the {} of the models differ: {} has {}; {} has {}", what,
                                     a.directory(), list_of(of_a), b.directory(), list_of(of_b)),
                         fmt::format("compare models that have the same {}", what));
}

// Whether one batch can be given to both; sizes of -1 fit any.
bool fit(const TensorInfo& a, const TensorInfo& b) {
  if (a.dtype != b.dtype || a.shape.size() != b.shape.size()) return false;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] != b.shape[i] && a.shape[i] >= 0 && b.shape[i] >= 0) return false;
  }
  return true;
}

// The name that a model gives to what the other calls `name`.
std::string name_in(const Infos& infos, const std::string& name) {
  return infos.size() == 1 ? infos.begin()->first : name;
}

OutputComparison compare(const std::string& name, const Tensor& a, const Tensor& b,
                         double tolerance) {
  OutputComparison result{.name = name, .form = muster::describe(a)};
  if (a.sizes() != b.sizes()) {
    result.other_form = fmt::format("{} and {}", muster::describe(a), muster::describe(b));
    result.equal = false;
    return result;
  }
  const Tensor x = a.to(at::kDouble).contiguous(), y = b.to(at::kDouble).contiguous();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double left = x.data_ptr<double>()[i], right = y.data_ptr<double>()[i];
    if (std::isfinite(left)) result.largest = std::max(result.largest, std::abs(left));
    if (left == right || (std::isnan(left) && std::isnan(right))) continue;
    double apart = std::abs(left - right);
    if (!std::isfinite(apart)) apart = std::numeric_limits<double>::infinity();
    const double larger = std::max(std::abs(left), std::abs(right));
    result.absolute = std::max(result.absolute, apart);
    result.relative = std::max(result.relative, std::isfinite(apart) ? apart / larger : apart);
    if (!(apart <= tolerance * (1 + std::abs(left)))) result.equal = false;
  }
  return result;
}

// Of one output; nothing if it is not a prediction of the labels.
std::optional<double> score_of(const Tensor& output, const Tensor& labels, bool* is_accuracy) {
  const Tensor wanted = labels.reshape({-1});
  if (output.dim() == 0 || output.size(0) != wanted.size(0)) return std::nullopt;
  *is_accuracy =
      output.dim() == 2 && output.size(1) > 1 && !at::isFloatingType(wanted.scalar_type());
  if (*is_accuracy) return output.argmax(1).eq(wanted).to(at::kDouble).mean().item<double>();
  if (output.numel() != wanted.numel()) return std::nullopt;
  return output.reshape({-1}).to(at::kDouble).sub(wanted).abs().mean().item<double>();
}

std::string verdict(const OutputComparison& output) {
  return output.equal ? "equal" : output.other_form.empty() ? "differs" : output.other_form;
}

}  // namespace

bool ModelComparison::equal() const {
  return std::ranges::all_of(outputs, [](const OutputComparison& each) { return each.equal; });
}

void check_same_inputs(const Servable& a, const Servable& b) {
  const Infos &of_a = default_of(a).inputs, &of_b = default_of(b).inputs;
  if (of_a.size() != of_b.size()) refuse("inputs", a, of_a, b, of_b);
  for (const auto& [name, info] : of_a) {
    const auto found = of_b.find(name_in(of_b, name));
    if (found == of_b.end() || !fit(info, found->second)) refuse("inputs", a, of_a, b, of_b);
  }
}

ModelComparison compare_models(const Servable& a, const Servable& b,
                               const Servable::Tensors& inputs, double tolerance) {
  const Infos &of_a = default_of(a).outputs, &of_b = default_of(b).outputs;
  Servable::Tensors renamed;
  for (const auto& [name, tensor] : inputs) renamed[name_in(default_of(b).inputs, name)] = tensor;
  const Servable::Tensors left = a.run(kServingDefault, inputs),
                          right = b.run(kServingDefault, renamed);
  ModelComparison result{.rows = inputs.begin()->second.size(0), .tolerance = tolerance};
  if (of_a.size() != of_b.size()) refuse("outputs", a, of_a, b, of_b);
  for (const auto& [name, tensor] : left) {
    const auto found = right.find(name_in(of_b, name));
    if (found == right.end()) refuse("outputs", a, of_a, b, of_b);
    result.outputs.push_back(compare(name, tensor, found->second, tolerance));
  }
  return result;
}

std::string text_of(const ModelComparison& comparison) {
  TextTable table({"output", "form", ">largest difference", ">relative", ""});
  for (const OutputComparison& each : comparison.outputs) {
    table.add({each.name, each.form, fmt::format("{:.3g}", each.absolute),
               fmt::format("{:.3g}", each.relative), verdict(each)});
  }
  return fmt::format("{}the models {} on {} rows: tolerance {:g}\n", table.text(""),
                     comparison.equal() ? "are equal" : "differ", comparison.rows,
                     comparison.tolerance);
}

std::string json_of(const ModelComparison& comparison) {
  nlohmann::json all = {{"rows", comparison.rows},
                        {"tolerance", comparison.tolerance},
                        {"equal", comparison.equal()},
                        {"outputs", nlohmann::json::array()}};
  for (const OutputComparison& each : comparison.outputs) {
    nlohmann::json one = {{"name", each.name}, {"form", each.form}, {"equal", each.equal}};
    if (!each.other_form.empty()) {
      one["forms"] = each.other_form;
    } else {
      one["absolute"] = each.absolute;
      one["relative"] = each.relative;
    }
    all["outputs"].push_back(one);
  }
  return all.dump(2) + "\n";
}

std::string text_of_differences(const ModelComparison& comparison) {
  std::string text;
  for (const OutputComparison& each : comparison.outputs) {
    text += fmt::format(
        "{}: differs by at most {:.3g} on {} random rows, {:.2g}% of its largest number\n",
        each.name, each.absolute, comparison.rows,
        each.largest > 0 ? 100 * each.absolute / each.largest : 0);
  }
  return text;
}

std::string text_of_accuracy(const Servable::Tensors& before, const Servable::Tensors& after,
                             const Tensor& labels) {
  std::string text;
  for (const auto& [name, output] : before) {
    bool accuracy = false;
    const auto first = score_of(output, labels, &accuracy);
    if (!first) continue;
    text += fmt::format("{}: {} {:.6g} before, {:.6g} after, {} rows\n", name,
                        accuracy ? "accuracy" : "mean absolute error", *first,
                        *score_of(after.at(name), labels, &accuracy), labels.size(0));
  }
  if (text.empty()) {
    throw invalid_argument(
        fmt::format("no output has a row for each of the labels, {}", muster::describe(labels)),
        "labels are classes of an output [rows, classes], or numbers like the "
        "output");
  }
  return text;
}

}  // namespace muster::app
