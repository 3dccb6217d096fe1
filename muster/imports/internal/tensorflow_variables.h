// The variables of a SavedModel: which tensors of its checkpoint they are restored from. For
// sources alone. Thread safety: one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "muster/base/file_system.h"
#include "muster/bundles/saved_model_file.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::imports {

// What a variable is restored from: a tensor of the checkpoint, or a part of one.
struct RestoredTensor {
  std::string key{};
  std::string part{};  // "10 4 0,5:-": the whole shape, and what is taken of each axis; "": all
};

class TensorflowVariables {
 public:
  // Reads the graph's restore operation. Throws Corrupt for one that contradicts itself, and the
  // errors of BundleReader for a damaged checkpoint in the folder "variables". A SavedModel without
  // one has no variables.
  TensorflowVariables(FileSystem& files, const std::string& folder,
                      const tensorflow::SavedModelFile& file);

  // The value of the variable of a node. The same node has the same tensor. Throws Corrupt with the
  // node if the checkpoint lacks it, and InvalidArgument ("not supported: ...") for a dtype that
  // LibTorch lacks.
  Tensor read(const std::string& node, const std::string& shared_name);
  // Whether a variable that was read is a whole tensor of the checkpoint.
  bool is_whole(const std::string& node) const { return whole_.contains(node); }
  // The number of steps of training, 0 if the checkpoint has none.
  int64_t global_step() const;

 private:
  const std::string folder_;
  std::map<std::string, RestoredTensor> restored_;  // by node
  std::map<std::string, std::string> keys_;         // of the checkpoint, by name
  std::optional<tensorflow::BundleReader> bundle_;
  std::map<std::string, Tensor> values_;
  std::set<std::string> whole_;
};

}  // namespace muster::inline v0_1::imports
