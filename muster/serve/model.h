// The server's interface to a model: its signatures, and an answer to one batch. Thread safety:
// Model's members may be called from several threads at once; the rest are values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/serve/array.h"

namespace muster::inline v0_1::serve {

// The form of one input or output; -1 is a length that the signature leaves open.
struct ArrayInfo {
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> shape{};
  bool may_be_missing = false;  // floats and texts alone: null is NaN, or ""
  bool may_be_bare = false;     // the one value of a row may be given without its lists

  // Returns "float32[-1, 3]".
  std::string describe() const;
};

// The purpose of a signature; the path of a request names it.
enum class Verb { kPredict, kClassify, kRegress };
// Returns "predict", "classify" or "regress".
std::string_view to_string(Verb verb);

// The inputs and outputs of a model, for one way of calling it.
struct Signature {
  Verb verb = Verb::kPredict;
  // Axis 0 of every input is the batch.
  std::map<std::string, ArrayInfo> inputs{};
  // kClassify: "scores", [-1, classes]. kRegress: "outputs", [-1] or [-1, 1].
  std::map<std::string, ArrayInfo> outputs{};
  std::vector<std::string> classes{};  // kClassify: names in the order of the scores
  bool takes_examples = false;         // whether serialized tf.Examples are taken too

  // Whether requests may be joined: each output has a row for each row of the inputs.
  bool joins() const;
};

// The signature that is meant where a request names none.
inline constexpr const char* kDefaultSignature = "serving_default";
// The input under which a model that takes serialized tf.Examples is given them: bytes[-1].
inline constexpr const char* kExamplesInput = "examples";

class Model {
 public:
  virtual ~Model() = default;
  virtual const std::map<std::string, Signature>& signatures() const = 0;
  // Answers one batch. `inputs` are the inputs of the signature, or kExamplesInput alone. Throws
  // InvalidArgument or Corrupt for values that the model cannot take; the error for one serialized
  // tf.Example begins with its place, "examples[2]: ".
  virtual Arrays run(const std::string& signature, const Arrays& inputs) = 0;
};

}  // namespace muster::inline v0_1::serve
