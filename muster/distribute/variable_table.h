// The variables of one replica of one model, by name. A model is built by one call of its function;
// after seal() no variable can appear any more. Thread safety: belongs to one replica's thread.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute {

class MUSTER_PART_EXPORT VariableTable : public VariableStore {
 public:
  // Initial values depend on (seed, variable name) only, wherever the variables live. With
  // `rows_elsewhere`, a row-sparse variable that trains has a shape and no memory of its own: it
  // reads zeros until it receives a reader of its rows.
  explicit VariableTable(uint64_t seed, Device device = at::kCPU, bool rows_elsewhere = false)
      : seed_(seed), device_(device), rows_elsewhere_(rows_elsewhere) {}

  Variable& get_or_create(const VariableSpec& spec) override;
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override;
  Device device() const override { return device_; }

  // The build pass is over: from now on a new name is an InvalidArgument that says so. Variables of
  // kOnRead get their initial value back, whatever the pass wrote into them.
  void seal();
  // New variables may be created again, until seal() is called again; it then gives variables of
  // kOnRead the values that they have now.
  void open();
  // No more new names, as after seal(); the values stay as they are.
  void seal_as_is();
  // The variable, one of these, was assigned: where the build pass is not over, the value that it
  // gets back is the one it has now.
  void note_assigned(const Variable& variable);
  // The variables whose synchronization is kOnRead, in creation order.
  const std::vector<Variable*>& on_read() const { return on_read_; }
  // A variable that was made without memory gets its initial value, and its rows are read here.
  void bring_here(Variable& variable);
  // Copies of their values, and the way back. Used around a call of the model function without
  // examples, because statistics of no examples are NaN. Variables that are written_without_rows
  // are left out.
  std::vector<Tensor> copy_on_read() const;
  void put_back_on_read(const std::vector<Tensor>& values);
  // One line per variable in creation order: all workers must agree on it.
  std::vector<std::string> signature() const;

 private:
  bool is_elsewhere(const VariableSpec& spec) const {
    return rows_elsewhere_ && spec.row_sparse && spec.trainable;
  }
  // The value that a new variable begins with.
  Tensor initial_value(const VariableSpec& spec) const;
  // The value that the initializer makes.
  Tensor made_value(const VariableSpec& spec) const;

  uint64_t seed_;
  Device device_;
  bool rows_elsewhere_;
  bool sealed_ = false;
  std::vector<std::unique_ptr<Variable>> variables_;
  std::vector<Variable*> on_read_;
  std::vector<Tensor> initial_;  // of on_read_, while variables may be created
  std::unordered_map<std::string, Variable*> by_name_;
};

}  // namespace muster::inline v0_1::distribute
