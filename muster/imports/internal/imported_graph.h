// A model of another library, read and checked, with the kernel of each node. For sources alone.
// Thread safety: values; immutable after they were read.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::onnx::internal {

struct ImportedGraph;
struct Kernel;

// Where a model is from: its path names it in errors, and its other files are next to it.
struct ModelPlace {
  FileSystem* files = nullptr;
  std::string path{};
};

// The place of a value while the model runs; the graphs in nodes share the places of the model.
inline constexpr size_t kNoSlot = static_cast<size_t>(-1);

struct ImportedAttribute {
  int64_t integer = 0;
  double number = 0;
  std::string text{};
  std::vector<int64_t> integers{};
  std::vector<double> numbers{};
  std::vector<std::string> texts{};
  std::vector<Shape> shapes{};
  Tensor tensor{};
  std::shared_ptr<const ImportedGraph> graph{};
};

struct ImportedNode {
  std::string label{};      // "Conv_3" (Conv): its name, or that of its first output
  std::string operation{};  // "Conv"; of another domain "ai.onnx.ml.Scaler"
  int64_t opset = 0;
  const Kernel* kernel = nullptr;
  std::vector<size_t> inputs{}, outputs{};  // kNoSlot: not given, not wanted
  std::map<std::string, ImportedAttribute> attributes{};
  std::vector<size_t> last_uses{};         // places that no later node reads
  std::shared_ptr<const void> prepared{};  // what the kernel made of the attributes
  // Set by the first run for which LibTorch lacks the operation for numbers of 16 bits.
  std::shared_ptr<std::atomic<bool>> widens = std::make_shared<std::atomic<bool>>(false);
};

struct ImportedGraph {
  std::vector<size_t> inputs{}, outputs{};
  std::vector<ImportedNode> nodes{};
};

struct ImportedWeight {
  std::string name{};
  size_t slot = 0;
  Tensor value{};
  bool is_variable = false;  // else a constant
  bool trainable = false;
};

// An input or an output: its sizes are -1 where the file has a name or nothing.
struct ImportedInfo {
  std::string name{};
  DType dtype = kFloat32;
  Shape shape{};
  bool has_shape = false;
  std::vector<std::string> axes{};  // the names of free axes; "" for others
};

struct ImportedModel {
  ModelPlace place;
  const char* format = "ONNX";         // for errors
  const char* runner = "onnxruntime";  // what runs any model of this format
  ImportedGraph graph{};
  std::vector<ImportedWeight> weights{};
  std::vector<ImportedInfo> inputs{}, outputs{};
  std::map<std::string, std::string> metadata{};
  size_t slots = 0;
};

// Adds the places that a node reads, and those that its graphs read or give.
void collect_uses(const ImportedNode& node, std::set<size_t>& uses);
// Sets last_uses of the nodes of a graph, so that tensors that nothing reads any more give their
// memory back.
void note_last_uses(ImportedGraph& graph);

}  // namespace muster::inline v0_1::onnx::internal
