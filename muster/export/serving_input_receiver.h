// Says what an exported model is asked with: tensors, or serialized tf.Examples that the server
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
  Shape shape{};  // of one example: the axis of the batch is not in it
  // Rows that the model function takes, [n, shape...]; the model is traced and tried on them. When
  // unset, numbers from [0, 1) are taken for floats, 0 and 1 for integers.
  std::optional<Tensor> example = std::nullopt;
  // Ids that are given as texts: of dtype kInt64. TorchScript has no strings, so the file beside
  // it, signatures.json, holds the words, and Servable::text_ids() looks them up.
  std::optional<TextInput> texts = std::nullopt;
  // Whether NaN, which JSON calls null, may be among the values, which are floats.
  bool may_be_missing = false;
};

// The features that a model function finds in Mode::kPredict once it is exported.
struct ServingInputReceiver {
  std::map<std::string, ServingFeature> features{};
  // How serialized tf.Examples become `features`, but for those that `columns` make; unset where
  // only tensors are taken.
  std::optional<data::FeatureSpec> parsing = std::nullopt;
  // Columns that stand in front of the model: a client gives what they read, and they make some of
  // the features. Unset where there are none; feature_column::serving_input_receiver() sets it.
  std::shared_ptr<const RequestColumns> columns = nullptr;
};

// Takes tensors: {"x": {kFloat32, {28, 28, 1}}}. Throws InvalidArgument where there is no feature,
// for a dtype that is not a number's, a negative size, an example of another dtype or shape,
// texts of another dtype than kInt64, without words or with one twice, and missing values of
// another dtype than kFloat32 and kFloat64.
MUSTER_EXPORT ServingInputReceiver
raw_serving_input_receiver(std::map<std::string, ServingFeature> features);
// Takes serialized tf.Examples, and the tensors that come of them as well. Throws InvalidArgument
// where there is no feature, and for one that is not a FixedLenFeature of numbers: the number of
// values of others changes, and LibTorch has no strings.
MUSTER_EXPORT ServingInputReceiver parsing_serving_input_receiver(const data::FeatureSpec& spec);

}  // namespace muster::inline v0_1
