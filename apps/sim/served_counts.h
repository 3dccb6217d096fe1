// A model on parameter servers whose weights count examples: a step adds 1 to the weight of its
// example on every server. So a checkpoint shows which examples count, and how often. Thread
// safety: belongs to a worker's thread; static functions from any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"
#include "muster/tensor/tensor.h"

namespace muster::sim {

class ServedCounts {
 public:
  // The most examples of a worker.
  static constexpr int64_t kRows = 64;

  ServedCounts(int workers, int servers);

  // What servers build too: a variable for each server, and one optimizer.
  static optim::TrainOp build(VariableStore& variables, int workers, int servers);
  // What tasks compare.
  std::vector<std::string> lines() const;
  // The gradients of one example of a worker.
  distribute::FlatParameters::Prepared gradients(int worker, int64_t row) const;
  // How often each example counts, of each server: float32 [workers, kRows], as they are here.
  std::vector<Tensor> counts() const;
  // The same of a checkpoint. Throws Broken unless the servers have the same.
  static Tensor counts(const std::map<std::string, Tensor>& checkpoint, int servers);

  distribute::VariableTable& table() { return table_; }
  distribute::FlatParameters& parameters() { return *parameters_; }
  const optim::TrainOp& train_op() const { return train_op_; }

 private:
  const int workers_;
  distribute::VariableTable table_{/*seed=*/0};
  optim::TrainOp train_op_;
  std::unique_ptr<distribute::FlatParameters> parameters_;
};

}  // namespace muster::sim
