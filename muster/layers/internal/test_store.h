// A store of variables for tests of layers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/tensor/libtorch.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::testing {

// Keeps variables in a plain list; the key of a value is (seed, name).
class TestStore final : public VariableStore {
 public:
  explicit TestStore(uint64_t seed = 7) : seed_(seed) {}
  Variable& get_or_create(const VariableSpec& spec) override {
    if (Variable* known = find(spec.name)) return *known;
    Tensor value = spec.initializer(spec.shape, spec.dtype, derive_key(seed_, {id_of(spec.name)}));
    value.requires_grad_(spec.trainable);
    variables_.push_back(std::make_unique<Variable>(spec, value));
    return *variables_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : variables_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& variable : variables_) all.push_back(variable->name());
    return all;
  }
  const Tensor& value(const std::string& name) const { return find(name)->value(); }

 private:
  uint64_t seed_;
  std::vector<std::unique_ptr<Variable>> variables_;
};

}  // namespace muster::inline v0_1::testing
