// Finds out the output of a layer by calling it on no rows: this works for any layer, also the
// user's own, and computes next to nothing. Thread safety: pure functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/layers/internal/graph_node.h"

namespace muster::inline v0_1::internal {

// Makes variables of zeros for layers that are probed: nothing is drawn, and memory is not touched
// before it is read.
class ProbeStore final : public VariableStore {
 public:
  Variable& get_or_create(const VariableSpec& spec) override;
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override;

 private:
  std::vector<std::unique_ptr<Variable>> variables_;
};

// The size of an axis that may have any.
inline constexpr int64_t kProbeLength = 256;

// Makes tensors of the specs, with `rows` in the batch and `length` for axes of any size, and their
// masks.
LayerInputs probe_inputs(const std::vector<SymbolicSpec>& tensors,
                         const std::vector<SymbolicSpec>& state, int64_t rows, int64_t length);

// Calls `probe(rows)` with 0, and if this throws, with 2: not all layers take no rows. Passes on
// the exception of the second call.
void probe_rows(const std::function<void(int64_t rows)>& probe);

struct Probed {
  std::vector<SymbolicSpec> outputs{};  // tensors, then state
  size_t tensors = 0;
  std::vector<VariableSpec> variables{};
};
// Throws the layer's errors, and InvalidArgument if the shape of a variable depends on an axis that
// may have any size.
Probed probe(const Layer& layer, const std::vector<SymbolicSpec>& tensors,
             const std::vector<SymbolicSpec>& state);

}  // namespace muster::inline v0_1::internal
