// Describes the requests of an exported model: tensors, or serialized tf.Examples that the server
// parses. Thread safety: values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/data/example.h"
#include "muster/export/signature.h"

namespace muster::inline v0_1 {

class RequestColumns;

// One feature of a request.
struct ServingFeature {
  DType dtype = kFloat32;
  // The shape of one example, without the batch axis. -1: a request chooses the size of this axis,
  // and all rows of the request have it.
  Shape shape{};
  // Rows for the model function, [n, shape...], on which the model is traced and tested. Unset:
  // random numbers of [0, 1) for floats, 0 and 1 for integers, and 7, 33 or 129 for axes of -1, the
  // first that the model takes.
  std::optional<Tensor> example = std::nullopt;
  // Lets clients give ids as texts: dtype kInt64. TorchScript has no strings, so signatures.json in
  // the same folder holds the words, and Servable::text_ids() looks them up.
  std::optional<TextInput> texts = std::nullopt;
  // Whether values, which are floats, may be NaN (null in JSON).
  bool may_be_missing = false;
};

// The features of the exported model function in Mode::kPredict.
struct ServingInputReceiver {
  std::map<std::string, ServingFeature> features{};
  // How serialized tf.Examples become `features`, except those that `columns` make; unset: only
  // tensors are accepted.
  std::optional<data::FeatureSpec> parsing = std::nullopt;
  // Feature columns before the model: a client gives their inputs, and they make some of the
  // features. Unset: none; feature_column::serving_input_receiver() sets it.
  std::shared_ptr<const RequestColumns> columns = nullptr;
};

// Accepts tensors: {"x": {kFloat32, {28, 28, 1}}}. Throws InvalidArgument without a feature, for a
// dtype that is not a number's, a size below -1, an example of another dtype or shape, texts of
// another dtype than kInt64, without words or with a repeated word, and missing values of another
// dtype than kFloat32 and kFloat64.
MUSTER_EXPORT ServingInputReceiver
raw_serving_input_receiver(std::map<std::string, ServingFeature> features);
// Accepts serialized tf.Examples, and also the parsed tensors. Throws InvalidArgument without a
// feature, and for one that is not a FixedLenFeature of numbers: other features vary in length, and
// LibTorch has no strings.
MUSTER_EXPORT ServingInputReceiver parsing_serving_input_receiver(const data::FeatureSpec& spec);

}  // namespace muster::inline v0_1
