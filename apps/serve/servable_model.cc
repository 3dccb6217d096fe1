#include "apps/serve/servable_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::app {
namespace {

using serve::ElementType;

// Numbers of 16 bits go over the network as float32.
constexpr std::pair<DType, ElementType> kTypes[] = {
    {DType::Bool, ElementType::kBool},     {DType::Byte, ElementType::kUint8},
    {DType::Char, ElementType::kInt8},     {DType::Short, ElementType::kInt16},
    {DType::Int, ElementType::kInt32},     {DType::Long, ElementType::kInt64},
    {DType::Float, ElementType::kFloat32}, {DType::Double, ElementType::kFloat64},
    {DType::Half, ElementType::kFloat32},  {DType::BFloat16, ElementType::kFloat32}};

ElementType element_type(DType dtype) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == dtype) return theirs;
  }
  throw invalid_argument(
      fmt::format("not supported: serving a tensor of dtype {}", dtype_name(dtype)));
}

// The first dtype in the table that holds these elements.
DType dtype_of(ElementType type) {
  return std::ranges::find(kTypes, type, &std::pair<DType, ElementType>::second)->first;
}

std::map<std::string, serve::ArrayInfo> infos_of(const std::map<std::string, TensorInfo>& tensors) {
  std::map<std::string, serve::ArrayInfo> infos;
  for (const auto& [name, info] : tensors) {
    infos[name] = {element_type(info.dtype), info.shape};
  }
  return infos;
}

// If feature columns come before the model, a request holds the features that they read.
std::map<std::string, serve::ArrayInfo> features_of(const Signature& signature) {
  std::map<std::string, serve::ArrayInfo> infos;
  for (const auto& [name, feature] : signature.features) {
    infos[name] = {.type = feature.is_text ? ElementType::kBytes : element_type(feature.dtype),
                   .shape = feature.shape,
                   .may_be_missing = feature.is_text};
  }
  return infos;
}

// Inputs with a vocabulary are requested as texts.
std::map<std::string, serve::ArrayInfo> inputs_of(const Signature& signature) {
  auto infos = signature.features.empty() ? infos_of(signature.inputs) : features_of(signature);
  for (auto& [name, info] : infos) {
    info.may_be_bare = true;
    if (signature.texts.contains(name)) info.type = ElementType::kBytes;
    info.may_be_missing |= signature.may_be_missing.contains(name);
  }
  return infos;
}

serve::Verb verb_of(SignatureMethod method) {
  switch (method) {
    case SignatureMethod::kPredict:
      return serve::Verb::kPredict;
    case SignatureMethod::kClassify:
      return serve::Verb::kClassify;
    case SignatureMethod::kRegress:
      return serve::Verb::kRegress;
  }
  throw internal_error("a signature has a method that no path is for");
}

// A tensor over the array's memory, which must outlive it.
Tensor view_of(const serve::Array& array) {
  // LibTorch does not write to inputs.
  auto* data = const_cast<std::byte*>(array.data.data());
  return torch::from_blob(data, array.shape, dtype_of(array.type));
}

Strings strings_of(const serve::Array& array) {
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const std::string& text : array.texts) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(array.shape, std::move(offsets), std::move(bytes));
}

serve::Array array_of(const Tensor& tensor) {
  const ElementType type = element_type(tensor.scalar_type());
  const Tensor plain = tensor.to(at::kCPU, dtype_of(type)).contiguous();
  serve::Array array{type, plain.sizes().vec(), {}, {}};
  array.data.resize(static_cast<size_t>(plain.numel()) * serve::element_size(type));
  if (!array.data.empty()) std::memcpy(array.data.data(), plain.data_ptr(), array.data.size());
  return array;
}

}  // namespace

ServableModel::ServableModel(const std::string& folder) : servable_(folder) {
  for (const auto& [name, signature] : servable_.signatures()) {
    signatures_[name] = {verb_of(signature.method), inputs_of(signature),
                         infos_of(signature.outputs), signature.classes, signature.takes_examples};
  }
  warm_up();
}

serve::Arrays ServableModel::run(const std::string& signature, const serve::Arrays& inputs) {
  // The number of threads is set for a runner's thread when it asks for it.
  thread_local const bool entered = (enter_thread(), true);
  (void)entered;
  const torch::NoGradGuard no_grad;
  Servable::Tensors outputs;
  const Signature& asked = servable_.signature(signature);
  const auto& infos = signatures_.at(signature).inputs;
  const auto examples = inputs.find(serve::kExamplesInput);
  // An input of texts may have that name too.
  if (examples != inputs.end() && examples->second.type == ElementType::kBytes &&
      !infos.contains(serve::kExamplesInput)) {
    outputs = servable_.run_examples(signature, examples->second.texts);
  } else if (!asked.features.empty()) {
    std::vector<std::pair<std::string, Element>> features;
    for (const auto& [name, array] : inputs) {
      features.emplace_back(name, array.type == ElementType::kBytes
                                      ? Element(strings_of(array))
                                      : Element(view_of(array).to(asked.features.at(name).dtype)));
    }
    outputs = servable_.run_features(signature, Element::dict(std::move(features)));
  } else {
    Servable::Tensors tensors;
    for (const auto& [name, array] : inputs) {
      tensors[name] = array.type == ElementType::kBytes
                          ? servable_.text_ids(name, strings_of(array))
                          : view_of(array).to(asked.inputs.at(name).dtype);
    }
    outputs = servable_.run(signature, tensors);
  }
  serve::Arrays arrays;
  for (const auto& [name, tensor] : outputs) arrays.emplace(name, array_of(tensor));
  return arrays;
}

void ServableModel::warm_up() {
  constexpr int kRuns = 2;  // the first run records the profile, the second compiles for it
  const torch::NoGradGuard no_grad;
  for (const auto& [name, signature] : servable_.signatures()) {
    Servable::Tensors zeros;
    for (const auto& [input, info] : signature.inputs)
      zeros[input] = torch::zeros(servable_.smallest_batch(name, input), info.dtype);
    try {
      for (int run = 0; run < kRuns; ++run) servable_.run(name, zeros);
    } catch (const std::exception& error) {
      // The model may refuse zeros; real requests show more.
      log::debug(fmt::format("signature '{}' does not take zeros: {}", name, error.what()));
    }
  }
}

}  // namespace muster::app
