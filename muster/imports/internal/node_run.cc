#include "muster/imports/internal/node_run.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/imports/internal/graph_run.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {

void refuse_attribute(const ImportedNode& node, const std::string& what) {
  throw corrupt(fmt::format("the node {}: {}", node.label, what));
}

bool has_16_bits(DType dtype) { return dtype == at::kHalf || dtype == at::kBFloat16; }

NodeRun::NodeRun(const ImportedNode& node, GraphRun& graph, bool widens)
    : node_(node), graph_(graph), widens_(widens) {}

bool NodeRun::has(size_t input) const {
  if (input >= node_.inputs.size() || node_.inputs[input] == kNoSlot) return false;
  const RunValue& value = graph_.value(node_.inputs[input]);
  return value.tensor.defined() || value.list != nullptr;
}

const RunValue& NodeRun::value(size_t input) const {
  if (!has(input)) refuse_attribute(node_, fmt::format("it has no input {}", input));
  return graph_.value(node_.inputs[input]);
}

Tensor NodeRun::in(size_t input) const {
  const Tensor given = graph_.tensor_of(value(input));
  require(given.defined(), "an input is a list of tensors");
  return widens_ && has_16_bits(given.scalar_type()) ? given.to(at::kFloat) : given;
}

std::vector<int64_t> NodeRun::integers(size_t input) const {
  const Tensor& given = value(input).tensor;
  require(given.defined(), "an input is a list of tensors");
  const Apart apart;
  const Tensor numbers = given.detach().to(at::kCPU, at::kLong).contiguous();
  const auto* begin = numbers.data_ptr<int64_t>();
  return {begin, begin + numbers.numel()};
}

int64_t NodeRun::integer(size_t input) const {
  const std::vector<int64_t> all = integers(input);
  require(all.size() == 1, "an input is not one number");
  return all.front();
}

double NodeRun::number(size_t input) const {
  const Tensor& given = value(input).tensor;
  require(given.defined() && given.numel() == 1, "an input is not one number");
  const Apart apart;
  return *given.detach().to(at::kCPU, at::kDouble).contiguous().data_ptr<double>();
}

const ImportedAttribute& NodeRun::attribute(const char* name) const {
  const auto found = node_.attributes.find(name);
  if (found == node_.attributes.end())
    refuse_attribute(node_, fmt::format("it has no attribute \"{}\"", name));
  return found->second;
}

int64_t NodeRun::integer_attribute(const char* name, int64_t otherwise) const {
  return has_attribute(name) ? attribute(name).integer : otherwise;
}

double NodeRun::number_attribute(const char* name, double otherwise) const {
  return has_attribute(name) ? attribute(name).number : otherwise;
}

std::string NodeRun::text_attribute(const char* name, const std::string& otherwise) const {
  return has_attribute(name) ? attribute(name).text : otherwise;
}

std::vector<int64_t> NodeRun::integers_attribute(const char* name,
                                                 const std::vector<int64_t>& otherwise) const {
  return has_attribute(name) ? attribute(name).integers : otherwise;
}

int64_t NodeRun::normalized(int64_t axis, int64_t rank) const {
  require(axis >= -rank && axis < rank, "an axis is out of range");
  return axis < 0 ? axis + rank : axis;
}

int64_t NodeRun::axis(const char* name, int64_t otherwise, int64_t rank) const {
  return normalized(integer_attribute(name, otherwise), rank);
}

std::vector<int64_t> NodeRun::axes(size_t input, int64_t rank) const {
  std::vector<int64_t> all = has(input) ? integers(input) : integers_attribute("axes", {});
  for (int64_t& each : all) each = normalized(each, rank);
  return all;
}

void NodeRun::refuse(const std::string& what) const {
  const ImportedModel& model = graph_.model();
  throw invalid_argument(
      fmt::format("not supported: {}: the node {} {}", model.format, node_.label, what),
      fmt::format("run the file in {}, or export the model with other operations", model.runner));
}

void NodeRun::require(bool good, const char* what) const {
  if (!good) throw invalid_argument(fmt::format("the node {}: {}", node_.label, what));
}

}  // namespace muster::inline v0_1::onnx::internal
