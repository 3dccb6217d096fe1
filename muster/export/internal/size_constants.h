// C++ code that asks a tensor for its size gets a number, which a trace holds as a constant. Traces
// of one function at several sizes show which constants follow which size. Thread safety: pure
// functions of their arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace muster::inline v0_1::internal {

// A size that differs from request to request: axis `axis` of the argument with this number. The
// number 0 is the first argument, which is the second input of the graph: the first is the module.
struct SizeSource {
  size_t argument = 0;
  int64_t axis = 0;
};

// A trace, and the sizes that it was made with, in the order of the sources.
struct SizedTrace {
  std::shared_ptr<torch::jit::Graph> graph{};
  std::vector<int64_t> sizes{};
};

// What keeps the first trace from computing other sizes.
struct SizeDeviation {
  size_t trace = 0;  // the first trace that differs
  std::string what{};
};

// Replaces each number of the first trace that follows the sizes by an expression of the sizes. A
// number follows them if in all traces it is a x m + b, with whole a and b and a != 0, and m is a
// size, the product of up to three sizes, or the length of an axis of a tensor computed before.
// Returns the first deviation, and then changes nothing, if the traces differ in anything else.
// REQUIRES: at least two traces.
std::optional<SizeDeviation> follow_sizes(const std::vector<SizedTrace>& traces,
                                          const std::vector<SizeSource>& sources);

}  // namespace muster::inline v0_1::internal
