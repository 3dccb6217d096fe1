// ONNX models that come back: what they compute in Muster, next to what they should.
// Thread safety: free functions; one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace muster::inline v0_1 {

// Runs "<folder>/model.onnx" on the batches that write_batches() of exported_cases.h wrote there.
// Returns a line for each output that differs by more than 1e-5 of its largest number, or of 1.
std::vector<std::string> import_differences(const std::string& folder);

// What became of the tests that tools/peers/onnx_node_tests.py wrote.
struct NodeTests {
  int passed = 0;
  // Why others did not run, and how many: "the operation Col2Im", "the dtype UINT32".
  std::map<std::string, int> unsupported{};
  std::vector<std::string> differing{};  // names, with the first difference
};
NodeTests run_node_tests(const std::string& folder);

}  // namespace muster::inline v0_1
