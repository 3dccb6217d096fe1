// RowTables holds the row-sparse variables a train_op updates: tables of which a step uses few
// rows. Their gradients are pairs of row numbers and values, travel as these, and change these rows
// alone. Thread safety: it belongs to the training thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/collectives/communicator.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute {

// A RowGradient is the gradient of some rows of a table.
struct RowGradient {
  Tensor ids{};     // int64 [n], sorted, each once
  Tensor values{};  // [n, the row's shape]
};

// Adds several gradients in their order, so the bits do not depend on where they were computed.
MUSTER_PART_EXPORT RowGradient sum_rows(const std::vector<RowGradient>& parts);

// Returns the sum over the replicas of `communicator`, in rank order, the same bits on each. The
// k-th entries belong to the same table everywhere. It costs two gathers for each table that anyone
// used, and one for how many rows there are.
std::vector<RowGradient> exchange_rows(Communicator& communicator,
                                       const std::vector<RowGradient>& mine);

class RowTables {
 public:
  // `slots` belong to the optimizer with index `optimizer`; each gets a tensor of the table's
  // shape. Throws InvalidArgument for a table without rows or of one axis.
  void add(Variable& variable, int optimizer, const std::vector<optim::SlotSpec>& slots);

  size_t size() const { return tables_.size(); }
  // Returns a table by index, in the order they were added.
  const Variable& variable(int table) const {
    return *tables_[static_cast<size_t>(table)].variable;
  }
  int optimizer(size_t table) const { return tables_[table].optimizer; }  // index, as add() got it

  // Is called after a backward. Adds the gradients of the rows that were used to those collected
  // before.
  // Throws InvalidArgument when a table was used as a whole.
  void collect();
  // Returns the collected gradients, by table, and begins anew. A table that was not used has no
  // rows.
  std::vector<RowGradient> take();
  // Whether all numbers are finite that take() would give of a table.
  bool finite(size_t table) const;

  // Updates the rows of the gradients of one optimizer's tables once: w -= ... gradient * scale,
  // and applies the constraints to them; the rule's learning rate counts `rate_multiplier` times.
  // There is a gradient for each table, of every optimizer. The other rows stay as they are, slots
  // included.
  void update(int optimizer, const optim::UpdateRule& rule,
              const std::vector<RowGradient>& gradients, double scale, double rate_multiplier,
              int64_t iterations);

  // Returns the slots of the optimizer with that index by "<slot>/<variable>", as views.
  std::map<std::string, Tensor> slots(int optimizer) const;
  // Slots that begin as the tables get the tables' present values.
  void begin_slots();
  // Returns tables and slots, each as one piece.
  std::vector<Tensor> pieces() const;

 private:
  struct Table {
    Variable* variable = nullptr;
    int optimizer = 0;
    std::vector<std::string> slot_names{};
    std::vector<Tensor> slots{};
    std::vector<size_t> as_weights{};  // the slots that begin as the table
    std::vector<RowGradient> collected{};
  };
  // Tables from `begin` to `end`, whose rows are updated as one segment.
  void update_together(size_t begin, size_t end, const optim::UpdateRule& rule,
                       const std::vector<RowGradient>& gradients, optim::Segment segment,
                       int64_t iterations);

  std::vector<Table> tables_;
};

}  // namespace muster::inline v0_1::distribute
