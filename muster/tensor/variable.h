// Variables: named state of a model. They are created through a VariableStore (which a strategy
// owns), never by layers themselves, so that the strategy decides where they live. Thread safety: a
// store belongs to one replica's thread; concurrent reads of values are safe between steps.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/constraint.h"
#include "muster/tensor/device.h"
#include "muster/tensor/regularizer.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// When the copies of a variable become one value. kOnWrite: at every write. kOnRead: only when a
// checkpoint is saved; until then each replica's model function writes its own copy, as it does for
// moving statistics and counts. Such a variable does not train.
enum class VariableSynchronization { kOnWrite, kOnRead };
// How the values of several replicas become one. With kNone and kOnlyFirstReplica it is the
// chief's. kConcat, of kOnRead alone: a replica's value belongs to the rows of its batch (axis 0),
// and a checkpoint has the values of all replicas one behind another. Any number of replicas that
// has as many rows together continues with them; with other batches each has its initial value.
enum class VariableAggregation { kNone, kSum, kMean, kOnlyFirstReplica, kConcat };

// Makes a fresh value from its arguments alone. The key is derived from (seed, variable name), so
// values do not depend on creation order, threads or replicas.
using Initializer = std::function<Tensor(const Shape& shape, DType dtype, RandomKey key)>;

// A VariableSpec describes a variable in all but its value.
struct MUSTER_EXPORT VariableSpec {
  std::string name{};  // Keras's: "cnn/conv2d/kernel"
  Shape shape{};
  DType dtype = kFloat32;
  Initializer initializer{};  // required
  bool trainable = true;
  VariableSynchronization synchronization = VariableSynchronization::kOnWrite;
  VariableAggregation aggregation = VariableAggregation::kMean;
  // For kOnRead: what is written in a step without examples counts too. It must where the value is
  // computed over all replicas. By default it is taken back.
  bool written_without_rows = false;
  // A table of which a step uses few rows (axis 0): it is read by Variable::rows(), its gradient is
  // that of these rows alone, and an update touches no other.
  bool row_sparse = false;
  // A penalty on the value. It joins the loss of every step, and its gradient the variable's own,
  // once, however many replicas and batches make the step.
  Regularizer regularizer = {};
  // Is applied to the whole value behind every update of it; of a row-sparse variable, to the rows
  // that were updated.
  Constraint constraint = {};

  // Gives "cnn/conv2d/kernel float32[3, 3, 1, 32]", and for a table "row-sparse" behind it. Model
  // digests are made of these lines.
  std::string describe() const;
};

// One variable of one replica. Its address is stable for the life of the store.
class MUSTER_EXPORT Variable {
 public:
  Variable(VariableSpec spec, Tensor value) : spec_(std::move(spec)), value_(std::move(value)) {}
  const VariableSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  // Gives the leaf tensor. It requires a gradient when the variable is trainable.
  const Tensor& value() const { return value_; }
  // Gives it to whoever replaces it.
  Tensor& value() { return value_; }

  // Gives the rows (axis 0) with these numbers: `ids` is int64 or int32 of any shape, the result is
  // [ids' shape, the row's shape]. Gradients flow back; while autograd records them, each call on a
  // row-sparse variable is noted as a use. Throws InvalidArgument for another dtype, and for a
  // number outside of the table; the error says where it stands.
  Tensor rows(const Tensor& ids);
  // Rows, and where each number that was asked for has its own.
  struct PlacedRows {
    Tensor rows{};    // [n, the row's shape]
    Tensor places{};  // int64 of the shape of the ids, in [0, n); below 0 where the id is
  };
  // Gives what rows() does, for operations that read rows where they stand: rows(ids) is
  // rows.index_select(0, places). An id below 0 stands for no row. Throws as rows() does.
  // REQUIRES: the variable is on the CPU.
  PlacedRows placed_rows(const Tensor& ids);
  // A RowUse holds the numbers of the rows that were used, int64 [n], sorted, each once; and the
  // leaf [n, ...] that gets their gradient.
  struct RowUse {
    Tensor ids{};
    Tensor rows{};
  };
  // Reads the rows with these numbers, int64 [n], sorted, each once, into [n, the row's shape].
  using RowReader = std::function<Tensor(const Tensor& ids)>;
  // From now on rows come from `reader`, as of a table that lives elsewhere: value() says no more
  // than its shape.
  void read_rows_by(RowReader reader) { reader_ = std::move(reader); }
  // Whether it is such a table.
  bool is_elsewhere() const { return static_cast<bool>(reader_); }
  // Gives the uses since they were last taken, in the order of the calls.
  const std::vector<RowUse>& row_uses() const { return row_uses_; }
  std::vector<RowUse> take_row_uses() { return std::exchange(row_uses_, {}); }  // and forgets them

 private:
  // Whether gradients are those of the rows that are read.
  bool notes_uses() const;
  // Reads the rows with these numbers, int64 and contiguous, on the variable's device; with
  // `noted`, as a use.
  PlacedRows use(const Tensor& ids, bool noted);

  VariableSpec spec_;
  Tensor value_;
  RowReader reader_;
  std::vector<RowUse> row_uses_;
};

// A VariableStore holds variables by name. The strategy brings one to each replica.
class MUSTER_EXPORT VariableStore {
 public:
  virtual ~VariableStore() = default;

  // Creates the variable of that name at the first call, and returns it at later ones. Throws
  // InvalidArgument when a later call names another shape or dtype (the error shows both), and when
  // the store is sealed and the name is new.
  virtual Variable& get_or_create(const VariableSpec& spec) = 0;
  // Gives all of them in creation order.
  virtual const std::vector<std::unique_ptr<Variable>>& variables() const = 0;
  // Gives nullptr when there is none.
  virtual Variable* find(const std::string& name) const = 0;
  // Gives the device its variables live on.
  virtual Device device() const { return at::kCPU; }
};

// Gives the sum of the penalties of the variables that have a regularizer, those that do not train
// included: a float64 scalar without a graph, and an undefined tensor where none has one.
MUSTER_EXPORT Tensor regularization_loss(const VariableStore& variables);

}  // namespace muster::inline v0_1
