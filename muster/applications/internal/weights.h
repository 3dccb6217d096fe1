// The weights of an application: a file's tensors, found by the names that programs give them,
// become the initial values of its layers.
// Thread safety: belongs to the thread that builds the application; the initializers it gives may
// be called from any.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/layers/functional.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::internal {

// Makes a tensor of a file to what a variable holds: it changes the order of the axes, or takes a
// part.
using Layout = std::function<Tensor(const Tensor&)>;

namespace layouts {
Tensor same(const Tensor& tensor);
// [filters, channels, height, width] -> [height, width, channels, filters].
Tensor convolution(const Tensor& tensor);
// [channels, 1, height, width] -> [height, width, channels, 1].
Tensor depthwise(const Tensor& tensor);
// [out, in] -> [in, out].
Tensor transposed(const Tensor& tensor);
}  // namespace layouts

// What each program calls a module: {{"torchvision", "layer1.0.conv1"}}.
using ModuleNames = std::vector<std::pair<std::string, std::string>>;

class Weights {
 public:
  // The names of Keras, and of our own checkpoints: "conv1_conv/kernel", maybe in a scope.
  static constexpr const char* kOwn = "Keras";
  static constexpr const char* kTorchvision = "torchvision";
  static constexpr const char* kHuggingFace = "Hugging Face";

  // `application` is how messages call it. Without a path no file is read, and all layers keep
  // their initial values.
  Weights(std::string application, std::string path);

  // Gives the initializer of the variable "<layer>/<weight>": the value that load() finds in the
  // file, else `otherwise`.
  Initializer initializer(const std::string& variable, Initializer otherwise) const;

  // A program's names may stand after one of these prefixes.
  void prefixes(const std::string& program, std::vector<std::string> prefixes);
  // Tensors of these names are not weights of the application. A star at the beginning or the end
  // stands for anything.
  void ignore(const std::string& program, const std::string& pattern);
  // A file's tensors `first` and `second`, where it has both, must be equal: the application has
  // one weight for them.
  void tie(const std::string& program, const std::string& first, const std::string& second);
  // This layer gives the classes.
  void head(const std::string& layer) { head_ = layer; }

  // The file's tensor for one variable. A second one is looked for where the first is not there,
  // and each without the prefix too: heads is next to the model they belong to.
  void add(const std::string& program, const std::string& variable, const std::string& tensor,
           Layout layout = layouts::same);
  // For the variables of a layer, "weight" and "bias" of the modules; those that the layer does not
  // have are not looked for.
  void convolution(const std::string& layer, const ModuleNames& modules);
  void depthwise(const std::string& layer, const ModuleNames& modules);
  void dense(const std::string& layer, const ModuleNames& modules);
  void batch_normalization(const std::string& layer, const ModuleNames& modules);
  void layer_normalization(const std::string& layer, const ModuleNames& modules);

  // Opens the file, and finds a value for each variable of the model, which is given back. Throws
  // NotFound where there is no file, and where it has none of the names; InvalidArgument that lists
  // what is missing, left over, and of another shape. `needed` is the option without which the
  // model has Keras's structure, so that other programs' names are refused; or empty.
  Functional load(Functional model, const std::string& needed = {}) const;

 private:
  struct Source {
    std::string tensor;
    Layout layout;
  };
  struct Naming {
    std::vector<std::string> prefixes{""};
    std::vector<std::string> ignored;
    std::vector<std::pair<std::string, std::string>> ties;
    std::map<std::string, std::vector<Source>> sources;  // by variable
  };
  class File;
  class Matching;

  std::string application_, path_, head_;
  std::map<std::string, Naming> namings_;
  std::shared_ptr<File> file_;  // what initializers read; nullptr without a path
};

}  // namespace muster::inline v0_1::internal
