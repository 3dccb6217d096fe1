#include "muster/onnx/internal/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {

using torch::jit::Value;

Call::Call(const torch::jit::Node& node, const ObservedGraph& observed, GraphWriter& writer,
           ValueNames& names)
    : node_(node), observed_(observed), writer_(writer), names_(names) {
  std::string label = node.outputs().empty() ? "" : observed.at(node.outputs()[0]).weight;
  // Of "net/dense/kernel": the layer.
  const size_t slash = label.rfind('/');
  if (slash != std::string::npos) label.resize(slash);
  writer.set_label(std::move(label));
}

std::string Call::operation() const { return node_.kind().toQualString(); }

const Value* Call::value(const char* argument) const {
  const c10::FunctionSchema* schema = node_.maybeSchema();
  const auto index = schema == nullptr ? c10::nullopt : schema->argumentIndexWithName(argument);
  if (!index || static_cast<size_t>(*index) >= node_.inputs().size()) return nullptr;
  return node_.inputs()[static_cast<size_t>(*index)];
}

const ObservedValue& Call::observed(const char* argument) const {
  const Value* given = value(argument);
  if (given == nullptr) refuse(fmt::format("has no argument \"{}\"", argument));
  return observed_.at(given);
}

const ObservedValue& Call::constant_of(const char* argument) const {
  const ObservedValue& given = observed(argument);
  if (!given.constant)
    refuse(fmt::format("has the argument \"{}\", which depends on the inputs", argument));
  return given;
}

bool Call::has(const char* argument) const {
  const Value* given = value(argument);
  if (given == nullptr) return false;
  const c10::IValue& first = observed_.at(given).runs[0];
  return !first.isNone() && !(first.isTensor() && !first.toTensor().defined());
}

bool Call::is_tensor(const char* argument) const {
  return has(argument) && observed(argument).runs[0].isTensor();
}

Tensor Call::form(const char* argument) const {
  const ObservedValue& given = observed(argument);
  if (!given.runs[0].isTensor()) refuse(fmt::format("has no tensor as \"{}\"", argument));
  return given.tensor();
}

const Tensor& Call::result(size_t index) const {
  return observed_.at(node_.outputs()[index]).tensor();
}

bool Call::is_fixed(size_t index, int64_t axis) const {
  const ObservedValue& given = observed_.at(node_.outputs()[index]);
  return given.runs[0].toTensor().size(axis) == given.runs[1].toTensor().size(axis);
}

bool Call::is_fixed_argument(const char* argument, int64_t axis) const {
  const ObservedValue& given = observed(argument);
  return given.runs[0].toTensor().size(axis) == given.runs[1].toTensor().size(axis);
}

std::vector<Tensor> Call::results() const {
  return observed_.at(node_.output()).runs[0].toTensorVector();
}

bool Call::same_results(int64_t axis) const {
  const auto first = results();
  const auto second = observed_.at(node_.output()).runs[1].toTensorVector();
  return std::ranges::equal(first, second, [&](const Tensor& a, const Tensor& b) {
    return a.size(axis) == b.size(axis);
  });
}

std::string Call::name_of(const Value* given) {
  const auto found = names_.find(given);
  if (found != names_.end()) return found->second.at(0);
  const ObservedValue& known = observed_.at(given);
  if (!known.constant || !known.runs[0].isTensor()) refuse("takes a value of an unknown kind");
  if (given->node()->kind() == c10::prim::GetAttr)
    return writer_.weight(known.tensor(), known.weight);
  // A weight in another layout is the weight too.
  const Value* source = given;
  while (source->node()->kind() != c10::prim::GetAttr && !source->node()->inputs().empty())
    source = source->node()->inputs()[0];
  const ObservedValue& first = observed_.at(source);
  if (first.runs[0].isTensor() && known.tensor().numel() > 0 &&
      first.tensor().data_ptr() == known.tensor().data_ptr() &&
      first.tensor().numel() == known.tensor().numel() &&
      first.tensor().scalar_type() == known.tensor().scalar_type())
    return writer_.weight(known.tensor(), first.weight);
  return writer_.constant(known.tensor());
}

std::string Call::in(const char* argument) { return in(argument, dtype(argument)); }

std::string Call::in(const char* argument, DType wanted) {
  const ObservedValue& given = observed(argument);
  if (given.runs[0].isTensor())
    return cast(name_of(value(argument)), given.tensor().scalar_type(), wanted);
  if (const auto known = names_.find(value(argument));
      !given.constant && known != names_.end() && known->second.size() == 2)
    return cast(known->second[1], at::kLong, wanted);
  if (!given.constant) {
    return cast(add("Squeeze", {size_name(value(argument)), writer_.integers({0})}), at::kLong,
                wanted);
  }
  const c10::IValue& number = given.runs[0];
  if (number.isInt()) return writer_.scalar(static_cast<double>(number.toInt()), wanted);
  if (number.isBool()) return writer_.scalar(number.toBool() ? 1 : 0, wanted);
  if (!number.isDouble()) refuse(fmt::format("has no number as \"{}\"", argument));
  return writer_.scalar(number.toDouble(), wanted);
}

std::vector<std::string> Call::list(const char* argument, std::optional<DType> wanted) {
  const Value* given = value(argument);
  if (given == nullptr) refuse(fmt::format("has no argument \"{}\"", argument));
  const auto forms = observed_.at(given).runs[0].toTensorVector();
  std::vector<std::string> result;
  if (given->node()->kind() == c10::prim::ListConstruct) {
    for (const Value* each : given->node()->inputs()) result.push_back(name_of(each));
  } else {
    const auto found = names_.find(given);
    if (found != names_.end()) {
      result = found->second;
    } else {
      for (const Tensor& each : forms) result.push_back(writer_.constant(each));
    }
  }
  for (size_t i = 0; wanted && i < result.size(); ++i)
    result[i] = cast(result[i], forms[i].scalar_type(), *wanted);
  return result;
}

std::vector<std::string> Call::optional_list(const char* argument) {
  const Value* given = value(argument);
  if (given == nullptr || given->node()->kind() != c10::prim::ListConstruct)
    refuse(fmt::format("has a list of an unknown kind as \"{}\"", argument));
  std::vector<std::string> result;
  for (const Value* each : given->node()->inputs()) {
    const c10::IValue& first = observed_.at(each).runs[0];
    const bool there = first.isTensor() && first.toTensor().defined();
    if (there && !at::isIntegralType(first.toTensor().scalar_type(), /*includeBool=*/false))
      refuse("takes positions by a mask");
    result.push_back(there ? cast(name_of(each), first.toTensor().scalar_type(), at::kLong) : "");
  }
  return result;
}

int64_t Call::integer(const char* argument) const { return constant_of(argument).runs[0].toInt(); }

double Call::number(const char* argument) const {
  const c10::IValue& given = constant_of(argument).runs[0];
  if (given.isTensor()) return given.toTensor().item<double>();
  if (given.isBool()) return given.toBool() ? 1 : 0;
  return given.isInt() ? static_cast<double>(given.toInt()) : given.toDouble();
}
double Call::number_or(const char* argument, double otherwise) const {
  return has(argument) ? number(argument) : otherwise;
}

bool Call::flag(const char* argument) const { return constant_of(argument).runs[0].toBool(); }
bool Call::flag_or(const char* argument, bool otherwise) const {
  return has(argument) ? flag(argument) : otherwise;
}

std::string Call::text(const char* argument) const {
  return constant_of(argument).runs[0].toStringRef();
}

std::vector<int64_t> Call::integers(const char* argument) const {
  const c10::IValue& given = constant_of(argument).runs[0];
  if (given.isInt()) return {given.toInt()};
  return given.toIntVector();
}

std::vector<int64_t> Call::integers(const char* argument, size_t count) const {
  std::vector<int64_t> given = integers(argument);
  if (given.size() == 1) given.resize(count, given.front());
  if (given.size() != count)
    refuse(fmt::format("has {} numbers as \"{}\"", given.size(), argument));
  return given;
}

int64_t Call::axis(const char* argument, int64_t rank) const {
  const int64_t given = integer(argument);
  return given < 0 ? given + rank : given;
}

std::vector<int64_t> Call::axes(const char* argument, int64_t rank) const {
  std::vector<int64_t> given;
  if (has(argument)) given = integers(argument);
  for (int64_t& each : given) each = each < 0 ? each + rank : each;
  return given;
}

std::optional<Tensor> Call::constant(const char* argument) const {
  if (!has(argument)) return std::nullopt;
  const ObservedValue& given = observed(argument);
  if (!given.constant || !given.runs[0].isTensor()) return std::nullopt;
  return given.tensor();
}

std::vector<std::pair<Tensor, std::string>> Call::constants(const char* argument) const {
  const Value* given = value(argument);
  if (given == nullptr || !observed_.at(given).constant ||
      given->node()->kind() != c10::prim::ListConstruct)
    return {};
  std::vector<std::pair<Tensor, std::string>> all;
  for (const Value* each : given->node()->inputs())
    all.emplace_back(observed_.at(each).tensor(), observed_.at(each).weight);
  return all;
}

std::string Call::size_name(const Value* given) {
  const ObservedValue& known = observed_.at(given);
  if (known.constant) return writer_.integers({known.runs[0].toInt()});
  return name_of(given);
}

std::string Call::size_of(const char* argument) { return size_name(value(argument)); }

std::vector<std::string> Call::size_list(const char* argument) {
  const Value* given = value(argument);
  if (given == nullptr) refuse(fmt::format("has no argument \"{}\"", argument));
  std::vector<std::string> sizes;
  if (observed_.at(given).constant) {
    for (const int64_t each : integers(argument)) sizes.push_back(writer_.integers({each}));
  } else if (given->node()->kind() == c10::prim::ListConstruct) {
    for (const Value* each : given->node()->inputs()) sizes.push_back(size_name(each));
  } else {
    const auto found = names_.find(given);
    if (found == names_.end())
      refuse(fmt::format("has sizes of an unknown kind as \"{}\"", argument));
    sizes = found->second;
  }
  return sizes;
}

std::string Call::sizes_of(const char* argument) {
  const Value* given = value(argument);
  if (given != nullptr && observed_.at(given).constant) return writer_.integers(integers(argument));
  return join_sizes(size_list(argument));
}

std::string Call::size_at(const std::string& tensor, int64_t axis) {
  return add("Shape", {tensor}, {{"start", axis}, {"end", axis + 1}});
}

std::string Call::join_sizes(const std::vector<std::string>& sizes) {
  return sizes.size() == 1 ? sizes.front() : add("Concat", sizes, {{"axis", int64_t{0}}});
}

std::string Call::cast(const std::string& tensor, DType from, DType to) {
  if (from == to) return tensor;
  return add("Cast", {tensor}, {{"to", static_cast<int64_t>(onnx_dtype(to))}});
}

std::string Call::reshape_to_result(const std::string& tensor) {
  std::vector<int64_t> shape;
  int free = 0;
  for (int64_t axis = 0; axis < result().dim(); ++axis) {
    const bool fixed = is_fixed(0, axis);
    shape.push_back(fixed ? result().size(axis) : -1);
    free += fixed ? 0 : 1;
  }
  if (free > 1) refuse("has a result with several free axes");
  return add("Reshape", {tensor, writer_.integers(shape)});
}

void Call::give(const std::string& name, size_t index) { give(std::vector{name}, index); }
void Call::give(const std::vector<std::string>& names, size_t index) {
  const Value* output = node_.outputs()[index];
  names_[output] = names;
  const c10::IValue& first = observed_.at(output).runs[0];
  const auto note = [&](const std::string& name, const Tensor& form) {
    if (form.defined()) writer_.note_rank(name, form.scalar_type(), form.dim());
  };
  if (first.isTensor()) note(names.front(), first.toTensor());
  if (!first.isTensorList()) return;
  const auto forms = first.toTensorVector();
  for (size_t i = 0; i < names.size() && i < forms.size(); ++i) note(names[i], forms[i]);
}

void Call::refuse(const std::string& what) const {
  std::string weight;
  for (const Value* input : node_.inputs()) {
    const std::string& near = observed_.at(input).weight;
    if (!near.empty()) weight = near;
  }
  throw invalid_argument(
      fmt::format("not supported: ONNX: the operation {}{} {}", operation(),
                  weight.empty() ? "" : fmt::format(", after the weight \"{}\",", weight), what),
      "export the model for LibTorch alone, or compute this with other operations");
}

}  // namespace muster::inline v0_1::onnx::internal
