// The inputs and outputs of an exported model, for each way to call it.
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// The purpose of a signature; TensorFlow Serving has one path for each.
enum class SignatureMethod { kPredict, kClassify, kRegress };

// Returns "predict", "classify" or "regress".
MUSTER_EXPORT std::string method_name(SignatureMethod method);

// The dtype and shape of one input or output.
struct MUSTER_EXPORT TensorInfo {
  DType dtype = kFloat32;
  Shape shape{};  // with -1 for the batch: axis 0 of every input

  // Returns "float32[-1, 28, 28, 1]".
  std::string describe() const;
  bool operator==(const TensorInfo&) const = default;
};

// A feature as a client gives it; feature columns read it.
struct MUSTER_EXPORT RawFeature {
  bool is_text = false;
  DType dtype = kFloat32;  // if it is not text
  Shape shape{};           // with -1 for the batch, axis 0

  // Returns "string[-1, 1]".
  std::string describe() const;
  bool operator==(const RawFeature&) const = default;
};

// An input of ids that clients may give as texts.
struct TextInput {
  std::vector<std::string> words{};  // by id
  int64_t unknown = -1;              // the id of a text that is not a word
  bool operator==(const TextInput&) const = default;
};

struct Signature {
  SignatureMethod method = SignatureMethod::kPredict;
  std::map<std::string, TensorInfo> inputs{};
  // kClassify: "scores", [-1, classes]. kRegress: "outputs", [-1] or [-1, n].
  std::map<std::string, TensorInfo> outputs{};
  // kClassify: the names of the classes, in the order of the scores.
  std::vector<std::string> classes{};
  // The inputs, all int64, that a server accepts as texts: see Servable::text_ids().
  std::map<std::string, TextInput> texts{};
  // Floating-point inputs that may lack values: NaN, or null in JSON.
  std::set<std::string> may_be_missing{};
  // The features that a client gives instead of the inputs, if there are feature columns before the
  // model: see Servable::run_features(). Else empty.
  std::map<std::string, RawFeature> features{};
  // Whether serialized tf.Examples are accepted too: see Servable::run_examples().
  bool takes_examples = false;
};

// The signature used when a request names none.
inline constexpr const char* kServingDefault = "serving_default";

}  // namespace muster::inline v0_1
