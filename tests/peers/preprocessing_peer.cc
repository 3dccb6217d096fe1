// Keras's preprocessing layers: tools/peers/cases/preprocessing.py.
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/preprocessing/category_encoding.h"
#include "muster/preprocessing/center_crop.h"
#include "muster/preprocessing/discretization.h"
#include "muster/preprocessing/hashing.h"
#include "muster/preprocessing/integer_lookup.h"
#include "muster/preprocessing/normalization.h"
#include "muster/preprocessing/resizing.h"
#include "muster/preprocessing/string_lookup.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/value.h"
#include "tests/peers/layer_options.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

Strings strings_of(const PeerArray& array) {
  const std::vector<std::string> texts = array.texts();
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const std::string& text : texts) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(array.shape, offsets, bytes);
}

PeerArray array_of(const Strings& strings) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < strings.size(); ++i) texts.emplace_back(strings[i]);
  PeerArray array = PeerArray::of(texts);
  array.shape = strings.shape();
  return array;
}

void take_mode(const Json& options, OutputMode& mode) {
  if (!options.contains("output_mode")) return;
  const std::string name = options.at("output_mode");
  mode = name == "one_hot"     ? OutputMode::kOneHot
         : name == "multi_hot" ? OutputMode::kMultiHot
         : name == "count"     ? OutputMode::kCount
         : name == "tf_idf"    ? OutputMode::kTfIdf
                               : OutputMode::kInt;
}

PeerArrays normalize(const PeerCase& a_case, const Json& given) {
  NormalizationOptions options;
  take(given, "invert", options.invert);
  if (given.contains("axis")) {
    const Json& axis = given.at("axis");
    options.axis = axis.is_null()    ? std::vector<int64_t>{}
                   : axis.is_array() ? axis.get<std::vector<int64_t>>()
                                     : std::vector<int64_t>{axis.get<int64_t>()};
  }
  if (given.contains("mean")) options.mean = {given.at("mean").get<double>()};
  if (given.contains("variance")) options.variance = {given.at("variance").get<double>()};
  Normalization layer(options);
  if (a_case.inputs.count("adapt") > 0) layer = layer.adapt(a_case.inputs.at("adapt").tensor());
  return {{"output", PeerArray::of(layer(a_case.inputs.at("input").tensor()))},
          {"mean", PeerArray::of(torch::tensor(layer.mean(), kFloat64))},
          {"variance", PeerArray::of(torch::tensor(layer.variance(), kFloat64))}};
}

PeerArrays discretize(const PeerCase& a_case, const Json& given) {
  DiscretizationOptions options;
  take(given, "bin_boundaries", options.bin_boundaries);
  take(given, "num_bins", options.num_bins);
  take_mode(given, options.output_mode);
  Discretization layer(options);
  if (a_case.inputs.count("adapt") > 0) layer = layer.adapt(a_case.inputs.at("adapt").tensor());
  return {{"output", PeerArray::of(layer(a_case.inputs.at("input").tensor()))},
          {"boundaries", PeerArray::of(torch::tensor(layer.bin_boundaries(), kFloat64))}};
}

PeerArrays encode(const PeerCase& a_case, const Json& given) {
  CategoryEncodingOptions options;
  take_mode(given, options.output_mode);
  const CategoryEncoding layer(given.at("num_tokens"), options);
  const Tensor ids = a_case.inputs.at("input").tensor();
  const auto weights = a_case.inputs.find("count_weights");
  return {{"output",
           PeerArray::of(weights == a_case.inputs.end() ? layer(ids)
                                                        : layer(ids, weights->second.tensor()))}};
}

PeerArrays put_into_buckets(const PeerCase& a_case, const Json& given) {
  HashingOptions options;
  take_mode(given, options.output_mode);
  if (given.contains("salt")) {
    const Json& salt = given.at("salt");
    options.salt = salt.is_array() ? salt.get<std::vector<uint64_t>>()
                                   : std::vector<uint64_t>{salt.get<uint64_t>()};
  }
  if (given.contains("mask_value")) {
    const Json& mask = given.at("mask_value");
    if (mask.is_string()) {
      options.mask_value = mask.get<std::string>();
    } else {
      options.mask_value = mask.get<int64_t>();
    }
  }
  const Hashing layer(given.at("num_bins"), options);
  const PeerArray& input = a_case.inputs.at("input");
  return {{"output", PeerArray::of(input.dtype == "string" ? layer(strings_of(input))
                                                           : layer(input.tensor()))}};
}

// The options of both lookups.
template <typename Options>
Options lookup_options(const Json& given) {
  Options options;
  take(given, "max_tokens", options.max_tokens);
  take(given, "num_oov_indices", options.num_oov_indices);
  take(given, "mask_token", options.mask_token);
  take(given, "oov_token", options.oov_token);
  take(given, "vocabulary", options.vocabulary);
  take(given, "idf_weights", options.idf_weights);
  take(given, "invert", options.invert);
  take(given, "pad_to_max_tokens", options.pad_to_max_tokens);
  take_mode(given, options.output_mode);
  return options;
}

PeerArrays look_up_texts(const PeerCase& a_case, const Json& given) {
  StringLookup layer(lookup_options<StringLookupOptions>(given));
  if (a_case.inputs.count("adapt") > 0) layer = layer.adapt(strings_of(a_case.inputs.at("adapt")));
  const PeerArray& input = a_case.inputs.at("input");
  return {{"output", input.dtype == "string" ? PeerArray::of(layer(strings_of(input)))
                                             : array_of(layer(input.tensor()))},
          {"vocabulary", PeerArray::of(layer.vocabulary())}};
}

PeerArrays look_up_numbers(const PeerCase& a_case, const Json& given) {
  IntegerLookup layer(lookup_options<IntegerLookupOptions>(given));
  if (a_case.inputs.count("adapt") > 0) layer = layer.adapt(a_case.inputs.at("adapt").tensor());
  return {{"output", PeerArray::of(layer(a_case.inputs.at("input").tensor()))},
          {"vocabulary", PeerArray::of(torch::tensor(layer.vocabulary(), kInt64))}};
}

PeerArrays run_preprocessing(const PeerCase& a_case) {
  const std::string name = a_case.program.at("class");
  const Json given = a_case.program.value("options", Json::object());
  if (name == "Normalization") return normalize(a_case, given);
  if (name == "Discretization") return discretize(a_case, given);
  if (name == "CategoryEncoding") return encode(a_case, given);
  if (name == "Hashing") return put_into_buckets(a_case, given);
  if (name == "StringLookup") return look_up_texts(a_case, given);
  if (name == "IntegerLookup") return look_up_numbers(a_case, given);
  const Tensor images = a_case.inputs.at("input").tensor();
  if (name == "CenterCrop")
    return {{"output", PeerArray::of(CenterCrop(given.at("height"), given.at("width"))(images))}};
  ResizingOptions options;
  if (given.contains("interpolation"))
    options.interpolation = interpolation_of(given.at("interpolation"));
  take(given, "crop_to_aspect_ratio", options.crop_to_aspect_ratio);
  return {
      {"output", PeerArray::of(Resizing(given.at("height"), given.at("width"), options)(images))}};
}

const PeerKind kPreprocessing("preprocessing", run_preprocessing);

}  // namespace
}  // namespace muster::inline v0_1
