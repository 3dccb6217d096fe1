// The file saved_model.pb of a TensorFlow SavedModel, opened in place: its graph, its functions and
// its signatures. Nodes are read when they are asked for, since a file has many that nothing uses.
// Source of the format: tensorflow/core/protobuf/saved_model.proto, meta_graph.proto,
// saved_object_graph.proto; tensorflow/core/framework/graph.proto, function.proto, node_def.proto.
// Thread safety: immutable after construction.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/bundles/tensor_bundle.h"

namespace muster::inline v0_1::tensorflow {

// A node; its texts are in the file's bytes.
struct MUSTER_PART_EXPORT SavedNode {
  std::string_view name{};       // "dense/MatMul"
  std::string_view operation{};  // "MatMul"
  Bytes message{};               // NodeDef

  // "dense/kernel:0", "^init". Throws Corrupt.
  std::vector<std::string_view> inputs() const;
  // AttrValue messages by name. Throws Corrupt.
  std::map<std::string_view, Bytes> attributes() const;
};

// A function of the graph's library.
struct SavedFunction {
  std::string_view name{};
  std::vector<std::string_view> arguments{};               // their names
  std::vector<std::string_view> results{};                 // their names, in order
  std::map<std::string_view, std::string_view> returns{};  // the value of each result
  std::vector<SavedNode> nodes{};
};

// An input or output of a signature.
struct SavedTensorInfo {
  std::string tensor{};  // "serving_default_x:0"; "" for what is no dense tensor
  BundleDtype dtype = BundleDtype::kFloat;
  std::vector<int64_t> shape{};  // -1: any size
  bool has_rank = false;
};

struct SavedSignature {
  std::string method{};  // "tensorflow/serving/predict"
  std::map<std::string, SavedTensorInfo> inputs{}, outputs{};
};

// The first graph of the file.
class MUSTER_PART_EXPORT SavedModelFile {
 public:
  // Throws Corrupt for bytes that are no SavedModel.
  explicit SavedModelFile(std::string bytes);
  SavedModelFile(const SavedModelFile&) = delete;
  SavedModelFile& operator=(const SavedModelFile&) = delete;

  const std::vector<std::string>& tags() const { return tags_; }
  const std::map<std::string, SavedSignature>& signatures() const { return signatures_; }
  const std::vector<SavedNode>& nodes() const { return nodes_; }
  const std::map<std::string_view, SavedFunction>& functions() const { return functions_; }
  // The node that restores the variables, and the value that names their files; "" without.
  const std::string& restore_operation() const { return restore_; }
  const std::string& restore_file() const { return restore_file_; }
  // Whether a variable trains, by its name without ":0"; variables of which the file says nothing
  // are missing.
  const std::map<std::string, bool>& trainable() const { return trainable_; }

 private:
  void read(Bytes graph);

  const std::string bytes_;
  std::vector<std::string> tags_;
  std::map<std::string, SavedSignature> signatures_;
  std::vector<SavedNode> nodes_;
  std::map<std::string_view, SavedFunction> functions_;
  std::string restore_, restore_file_;
  std::map<std::string, bool> trainable_;
};

}  // namespace muster::inline v0_1::tensorflow
