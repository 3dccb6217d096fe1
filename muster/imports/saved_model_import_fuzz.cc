// Files saved_model.pb of any bytes are read or refused: Corrupt, or InvalidArgument that says what
// Muster does not run.
#include "muster/base/error.h"
#include "muster/bundles/saved_model_file.h"
#include "muster/imports/internal/small_saved_model.h"
#include "muster/imports/internal/tensorflow_graph.h"
#include "muster/tensor/libtorch.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace {

using namespace muster::imports;  // NOLINT(google-build-using-namespace)

SmallModel loop() {
  SmallModel model = small_model();
  model.nodes[1] = {
      "y", "While", {"x"}, {{"cond", small_function("f")}, {"body", small_function("f")}}};
  return model;
}

SmallModel variable() {
  SmallModel model;
  model.nodes = {{"x", "Placeholder"},
                 {"w", "VarHandleOp", {}, {{"dtype", small_type(1)}}},
                 {"y", "ResourceGather", {"w", "x"}}};
  return model;
}

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  return {small_model().bytes(), loop().bytes(), variable().bytes()};
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

// Functions that call each other, long chains, and constants of many elements.
std::vector<std::string> muster::fuzz::attacks() {
  SmallModel calls = small_model(), chain = small_model(), constants = small_model();
  for (auto& node : calls.functions[0].nodes)
    node = {node.name, "PartitionedCall", {"a"}, {{"f", small_function("f")}}};
  chain.nodes[1] = {"n0", "Relu", {"x"}};
  for (int i = 1; i < 20'000; ++i)
    chain.nodes.push_back({"n" + std::to_string(i), "Relu", {"n" + std::to_string(i - 1)}});
  chain.output = "n19999";
  for (int i = 0; i < 1000; ++i)
    constants.nodes.push_back(
        {"c" + std::to_string(i), "Const", {}, {{"value", small_tensor({int64_t{1} << 30}, {1})}}});
  constants.nodes.push_back({"all", "Pack"});
  for (int i = 0; i < 1000; ++i) constants.nodes.back().inputs.push_back("c" + std::to_string(i));
  constants.output = "all";
  return {calls.bytes(), chain.bytes(), constants.bytes()};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  // A node has some twenty bytes in the file, and some hundred as a node of Muster. A function may
  // be called 32 times for each of its nodes.
  const fuzz::Meter meter(kParseFixedBytes + 3000 * size);
  try {
    const tensorflow::SavedModelFile file(std::string(reinterpret_cast<const char*>(data), size));
    TensorflowVariables variables(local_file_system(), "/nowhere", file);
    for (const auto& [name, signature] : file.signatures()) {
      const SignatureModel read = read_signature(file, signature, variables,
                                                 {&local_file_system(), "/nowhere/saved_model.pb"});
      for (const auto& node : read.model.graph.nodes) {
        fuzz::require(node.kernel != nullptr, "nodes have kernels");
        for (const size_t slot : node.inputs)
          fuzz::require(slot < read.model.slots, "inputs have places");
      }
    }
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kCorrupt ||
                      error.kind() == ErrorKind::kInvalidArgument ||
                      error.kind() == ErrorKind::kNotFound,
                  "the file is to blame");
  }
  return 0;
}
