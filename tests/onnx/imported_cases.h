// ONNX models and SavedModels that come back: what they compute in Muster, next to what they
// should. Thread safety: free functions; one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace muster::inline v0_1 {

// Runs "<folder>/<file>", model.onnx or saved_model.pb, on the batches that write_batches() of
// exported_cases.h or a script of tools/peers wrote there. Returns a line for each output that
// differs by more than 1e-5 of its largest number, or of 1.
std::vector<std::string> import_differences(const std::string& folder, const std::string& file);

// What became of the tests that tools/peers/onnx_node_tests.py wrote.
struct NodeTests {
  int passed = 0;
  // Why others did not run, and how many: "the operation Col2Im", "the dtype UINT32".
  std::map<std::string, int> unsupported{};
  std::vector<std::string> differing{};  // names, with the first difference
};
NodeTests run_node_tests(const std::string& folder);

}  // namespace muster::inline v0_1
