// C++ code that asks a tensor for its size gets a number, which a trace holds as a constant. Two
// traces of one function, at two batch sizes, show which constants follow the batch. Thread safety:
// pure functions of their arguments.
#pragma once

#include <cstdint>
#include <memory>

namespace torch::jit {
struct Graph;
}

namespace muster::inline v0_1::internal {

// A trace, and how many rows it was made with.
struct BatchTrace {
  std::shared_ptr<torch::jit::Graph> graph;
  int64_t rows = 0;
};

// Replaces each whole number of `trace` that is a x rows + b, with whole a and b and a != 0, as the
// other trace shows, by that expression of the size of axis 0 of the first argument (the second
// input of the graph: the first is the module). Returns false, and changes nothing, if the two
// traces differ in anything else.
bool follow_batch(const BatchTrace& trace, const BatchTrace& other);

}  // namespace muster::inline v0_1::internal
