#include "muster/export/internal/description.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using nlohmann::json;

constexpr int kFormatVersion = 1;

constexpr std::array kDTypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kByte,
                                at::kChar,  at::kShort,  at::kInt,  at::kLong,     at::kBool};

DType dtype_of(const std::string& name) {
  for (const DType dtype : kDTypes) {
    if (dtype_name(dtype) == name) return dtype;
  }
  throw corrupt(fmt::format("unknown dtype \"{}\"", name));
}

json json_of(const std::map<std::string, TensorInfo>& tensors, const OutputKeys* keys) {
  json all = json::object();
  for (const auto& [name, info] : tensors) {
    all[name] = {{"dtype", dtype_name(info.dtype)}, {"shape", info.shape}};
    if (keys != nullptr) all[name]["key"] = keys->at(name);
  }
  return all;
}

std::map<std::string, TensorInfo> tensors_of(const json& all) {
  std::map<std::string, TensorInfo> tensors;
  for (const auto& [name, info] : all.items()) {
    tensors[name] = {dtype_of(info.at("dtype").get<std::string>()), info.at("shape").get<Shape>()};
    for (const int64_t length : tensors[name].shape) {
      if (length < -1) throw corrupt(fmt::format("\"{}\" has an axis of length {}", name, length));
    }
  }
  return tensors;
}

json json_of(const data::FixedLenFeature& feature) {
  json fields = {{"dtype", dtype_name(std::get<DType>(feature.dtype))}, {"shape", feature.shape}};
  if (!feature.default_value) return fields;
  const Tensor given = feature.default_value->tensor().to(kFloat64).contiguous();
  const Tensor whole = feature.default_value->tensor().to(kInt64).contiguous();
  fields["default_shape"] = given.sizes().vec();
  if (std::get<DType>(feature.dtype) == kInt64) {
    fields["default"] =
        std::vector<int64_t>(whole.data_ptr<int64_t>(), whole.data_ptr<int64_t>() + whole.numel());
  } else {
    fields["default"] =
        std::vector<double>(given.data_ptr<double>(), given.data_ptr<double>() + given.numel());
  }
  return fields;
}

data::FixedLenFeature feature_of(const json& fields) {
  const DType dtype = dtype_of(fields.at("dtype").get<std::string>());
  data::FixedLenFeature feature{.shape = fields.at("shape").get<Shape>(), .dtype = dtype};
  if (!fields.contains("default")) return feature;
  const json& values = fields.at("default");
  const Tensor flat = dtype == kInt64
                          ? torch::tensor(values.get<std::vector<int64_t>>(), at::kLong)
                          : torch::tensor(values.get<std::vector<double>>(), at::kDouble).to(dtype);
  feature.default_value = flat.reshape(fields.at("default_shape").get<Shape>());
  return feature;
}

SignatureMethod method_of(const std::string& name) {
  for (const auto method :
       {SignatureMethod::kPredict, SignatureMethod::kClassify, SignatureMethod::kRegress}) {
    if (method_name(method) == name) return method;
  }
  throw corrupt(fmt::format("unknown method \"{}\"", name));
}

json json_of(const LengthRange& range) {
  json fields = {{"axes", json::array()}, {"least", range.least}};
  for (const FreeAxis& each : range.axes) fields["axes"].push_back({each.feature, each.axis});
  if (range.most) fields["most"] = *range.most;
  return fields;
}

LengthRange range_of(const json& fields) {
  LengthRange range{.axes = {}, .least = fields.at("least").get<int64_t>(), .most = {}};
  if (fields.contains("most")) range.most = fields.at("most").get<int64_t>();
  for (const json& each : fields.at("axes"))
    range.axes.push_back({each.at(0).get<std::string>(), each.at(1).get<int64_t>()});
  if (range.axes.empty()) throw corrupt("\"lengths\" has a range of no axis");
  return range;
}

// The axes of the ranges are axes of the inputs.
void check_lengths(const ServableDescription& description) {
  for (const LengthRange& range : description.lengths) {
    for (const auto& [feature, axis] : range.axes) {
      for (const auto& [name, signature] : description.signatures) {
        const auto input = signature.inputs.find(feature);
        if (axis >= 1 && input != signature.inputs.end() &&
            axis < static_cast<int64_t>(input->second.shape.size())) {
          continue;
        }
        throw corrupt(fmt::format("the signature \"{}\" has no axis {} of an input \"{}\"", name,
                                  axis, feature));
      }
    }
  }
}

void read_signature(const json& fields, const std::string& name, ServableDescription& into) {
  Signature& signature = into.signatures[name];
  signature.method = method_of(fields.at("method").get<std::string>());
  signature.inputs = tensors_of(fields.at("inputs"));
  for (const auto& [input, info] : signature.inputs) {
    if (info.shape.empty()) throw corrupt(fmt::format("the input \"{}\" has no batch axis", input));
  }
  signature.outputs = tensors_of(fields.at("outputs"));
  signature.classes = fields.at("classes").get<std::vector<std::string>>();
  signature.takes_examples = into.parsing.has_value();
  signature.texts = into.texts;
  signature.may_be_missing = into.may_be_missing;
  for (const auto& [output, info] : fields.at("outputs").items())
    into.keys[name][output] = info.at("key").get<std::string>();
}

ServableDescription read(const json& all) {
  ServableDescription result;
  result.global_step = all.at("global_step").get<int64_t>();
  result.checkpoint = all.at("checkpoint").get<std::string>();
  result.arguments = all.at("arguments").get<std::vector<std::string>>();
  if (all.contains("parsing")) {
    result.parsing.emplace();
    for (const auto& [key, fields] : all.at("parsing").items())
      (*result.parsing)[key] = feature_of(fields);
  }
  if (all.contains("columns")) result.columns = read_request_columns(all.at("columns"));
  if (all.contains("texts")) {
    for (const auto& [name, fields] : all.at("texts").items()) {
      result.texts[name] = {fields.at("words").get<std::vector<std::string>>(),
                            fields.at("unknown").get<int64_t>()};
    }
  }
  if (all.contains("may_be_missing"))
    result.may_be_missing = all.at("may_be_missing").get<std::set<std::string>>();
  for (const auto& [name, fields] : all.at("signatures").items())
    read_signature(fields, name, result);
  if (all.contains("lengths")) {
    for (const json& fields : all.at("lengths")) result.lengths.push_back(range_of(fields));
    check_lengths(result);
  }
  return result;
}

}  // namespace

std::string to_json(const ServableDescription& description) {
  json all = {{"format_version", kFormatVersion},
              {"global_step", description.global_step},
              {"checkpoint", description.checkpoint},
              {"arguments", description.arguments},
              {"signatures", json::object()}};
  for (const auto& [name, signature] : description.signatures) {
    all["signatures"][name] = {{"method", method_name(signature.method)},
                               {"inputs", json_of(signature.inputs, nullptr)},
                               {"outputs", json_of(signature.outputs, &description.keys.at(name))},
                               {"classes", signature.classes}};
  }
  for (const auto& [name, texts] : description.texts)
    all["texts"][name] = {{"words", texts.words}, {"unknown", texts.unknown}};
  if (!description.may_be_missing.empty()) all["may_be_missing"] = description.may_be_missing;
  for (const LengthRange& range : description.lengths) all["lengths"].push_back(json_of(range));
  if (description.columns) all["columns"] = description.columns->recipe();
  if (description.parsing) {
    all["parsing"] = json::object();
    for (const auto& [key, feature] : *description.parsing)
      all["parsing"][key] = json_of(std::get<data::FixedLenFeature>(feature));
  }
  return formats::sealed_text(all, description.files.value_or(formats::FileDigests()));
}

ServableDescription description_from_json(const std::string& text, const std::string& what) {
  const json all = parse_json(text, what, ErrorKind::kCorrupt).value();
  const auto files = formats::sealed_digests(text, all, what).value();
  try {
    const int version = all.at("format_version").get<int>();
    if (version > kFormatVersion) {
      throw invalid_argument(fmt::format("{} has format version {}, this Muster reads {}", what,
                                         version, kFormatVersion),
                             "load it with the Muster that wrote it, or a newer one");
    }
    ServableDescription description = read(all);
    description.files = files;
    return description;
  } catch (const json::exception& error) {
    throw corrupt(
        fmt::format("{} is not a description of an exported model: {}", what, error.what()));
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", what, error.message()), error.hint());
  }
}

}  // namespace muster::inline v0_1::internal
