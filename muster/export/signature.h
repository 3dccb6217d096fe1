// What an exported model takes and gives, for each of the ways to ask it.
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

// What a signature is for; TensorFlow Serving has one path for each.
enum class SignatureMethod { kPredict, kClassify, kRegress };

// Gives "predict", "classify" or "regress".
MUSTER_EXPORT std::string method_name(SignatureMethod method);

// The form of one input or output.
struct MUSTER_EXPORT TensorInfo {
  DType dtype = kFloat32;
  Shape shape{};  // with -1 for the batch: axis 0 of every input

  // Gives "float32[-1, 28, 28, 1]".
  std::string describe() const;
  bool operator==(const TensorInfo&) const = default;
};

// A feature as a client knows it, which feature columns read.
struct MUSTER_EXPORT RawFeature {
  bool is_text = false;
  DType dtype = kFloat32;  // where it is no text
  Shape shape{};           // with -1 for the batch, axis 0

  // Gives "string[-1, 1]".
  std::string describe() const;
  bool operator==(const RawFeature&) const = default;
};

// An input of ids that may be given as texts.
struct TextInput {
  std::vector<std::string> words{};  // by id
  int64_t unknown = -1;              // the id of a text that is no word
  bool operator==(const TextInput&) const = default;
};

struct Signature {
  SignatureMethod method = SignatureMethod::kPredict;
  std::map<std::string, TensorInfo> inputs{};
  // kClassify: "scores", [-1, classes]. kRegress: "outputs", [-1] or [-1, n].
  std::map<std::string, TensorInfo> outputs{};
  // kClassify: the names of the classes, in the order of the scores.
  std::vector<std::string> classes{};
  // Which inputs, all of them int64, are asked in texts by a server: see Servable::text_ids().
  std::map<std::string, TextInput> texts{};
  // Inputs of floats that may lack values: NaN, and null in JSON.
  std::set<std::string> may_be_missing{};
  // What a client gives in place of the inputs, where feature columns stand in front of the model:
  // see Servable::run_features(). Empty where none do.
  std::map<std::string, RawFeature> features{};
  // Whether serialized tf.Examples are taken too: see Servable::run_examples().
  bool takes_examples = false;
};

// The signature that is meant where none is named.
inline constexpr const char* kServingDefault = "serving_default";

}  // namespace muster::inline v0_1
