// The variables of one replica of one model, by name. A model is built by one call of its function;
// after seal() no variable can appear any more. Thread safety: belongs to one replica's thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/tensor/variable.h"

namespace muster::distribute {

class VariableTable : public VariableStore {
 public:
  // Initial values depend on (seed, variable name) only.
  explicit VariableTable(uint64_t seed) : seed_(seed) {}

  Variable& get_or_create(const VariableSpec& spec) override;
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override;

  // From now on a new name is an InvalidArgument that says so.
  void seal() { sealed_ = true; }
  // One line per variable in creation order: what all workers must agree on.
  std::vector<std::string> signature() const;

 private:
  uint64_t seed_;
  bool sealed_ = false;
  std::vector<std::unique_ptr<Variable>> variables_;
  std::unordered_map<std::string, Variable*> by_name_;
};

}  // namespace muster::distribute
