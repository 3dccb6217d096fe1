// Feature columns in the layers that take them: tools/peers/cases/columns.py.
#include <map>
#include <memory>
#include <stdexcept>

#include "muster/base/temp_directory.h"
#include "muster/features/dense_features.h"
#include "muster/features/linear_model.h"
#include "muster/features/resolve.h"
#include "muster/features/sequence_features.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"
#include "tests/peers/columns.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

// Variables begin with the values of a case, by their names without the layer's name.
class GivenVariables final : public VariableStore {
 public:
  explicit GivenVariables(const PeerArrays& values) : values_(values) {}

  Variable& get_or_create(const VariableSpec& spec) override {
    if (Variable* known = find(spec.name)) return *known;
    const std::string name = spec.name.substr(spec.name.find('/') + 1);
    const auto given = values_.find(name);
    if (given == values_.end()) throw std::runtime_error("the peer has no variable " + name);
    Tensor value = given->second.tensor();
    if (value.sizes() != at::IntArrayRef(spec.shape)) {
      throw std::runtime_error("the peer's variable " + name + " has another shape");
    }
    all_.push_back(std::make_unique<Variable>(spec, value));
    return *all_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return all_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : all_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }

 private:
  const PeerArrays& values_;
  std::vector<std::unique_ptr<Variable>> all_;
};

PeerArrays run_layer(const Json& program, const std::vector<FeatureColumn>& columns,
                     const Features& features, CallContext& context) {
  const std::string layer = program.at("layer");
  if (layer == "DenseFeatures") {
    return {{"values", PeerArray::of(DenseFeatures(columns)(features, context))}};
  }
  if (layer == "LinearModel") {
    LinearModelOptions options;
    take_option<int64_t>(program, "units", options.units);
    if (program.contains("sparse_combiner")) {
      options.sparse_combiner = peer_combiner(program.at("sparse_combiner"));
    }
    return {{"values", PeerArray::of(LinearModel(columns, options)(features, context))}};
  }
  const auto given = SequenceFeatures(columns)(features, context);
  return {{"values", PeerArray::of(given.values)}, {"lengths", PeerArray::of(given.lengths)}};
}

PeerArrays run_columns(const PeerCase& a_case) {
  const Json& program = a_case.program;
  const TempDirectory folder;
  const std::vector<FeatureColumn> columns = peer_columns(program.at("columns"), folder.path());
  Element batch = peer_features(program.at("features"), columns, program.value("examples", false));
  if (program.value("resolved", false)) batch = feature_column::resolve(columns)(batch);
  GivenVariables variables(a_case.inputs);
  StepContext context(variables, /*seed=*/1);
  return run_layer(program, columns, Features(batch), context);
}

const PeerKind kColumns("columns", run_columns);

}  // namespace
}  // namespace muster::inline v0_1
