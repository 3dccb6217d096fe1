// Variables: named state of a model. A VariableStore, which a strategy owns, creates them, never a
// layer itself, so that the strategy decides where they are stored. Thread safety: a store belongs
// to one replica's thread; concurrent reads of values are safe between steps.
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
// checkpoint is saved; until then each replica's model function writes its own copy, such as moving
// statistics and counts. Such a variable does not train.
enum class VariableSynchronization { kOnWrite, kOnRead };
// How the values of several replicas become one. kNone and kOnlyFirstReplica: the chief's value.
// kConcat, only with kOnRead: a replica's value belongs to the rows of its batch (axis 0), and a
// checkpoint has the values of all replicas one after another. Any number of replicas with the same
// total number of rows continues with them; with other batches each replica gets its initial value.
enum class VariableAggregation { kNone, kSum, kMean, kOnlyFirstReplica, kConcat };

// Makes an initial value from its arguments only. The key is derived from (seed, variable name), so
// values do not depend on creation order, threads or replicas.
using Initializer = std::function<Tensor(const Shape& shape, DType dtype, RandomKey key)>;

// A VariableSpec describes a variable without its value.
struct MUSTER_EXPORT VariableSpec {
  std::string name{};  // in Keras's form: "cnn/conv2d/kernel"
  Shape shape{};
  DType dtype = kFloat32;
  Initializer initializer{};  // required
  bool trainable = true;
  VariableSynchronization synchronization = VariableSynchronization::kOnWrite;
  VariableAggregation aggregation = VariableAggregation::kMean;
  // For kOnRead: whether writes in a step without examples are kept. Set it if the value is
  // computed over all replicas. By default such writes are undone.
  bool written_without_rows = false;
  // Whether a step uses few rows (axis 0) of this table: Variable::rows() reads it, its gradient
  // covers only these rows, and an update changes no others.
  bool row_sparse = false;
  // A penalty on the value. It is added to the loss of every step, and its gradient to the
  // variable's own, once, however many replicas and batches make the step.
  Regularizer regularizer = {};
  // Applied to the whole value after every update; for a row-sparse variable, to the updated rows.
  Constraint constraint = {};

  // Returns "cnn/conv2d/kernel float32[3, 3, 1, 32]", followed by "row-sparse" for such a table.
  // Model digests are made of these lines.
  std::string describe() const;
};

// One variable of one replica. Its address is stable for the life of the store.
class MUSTER_EXPORT Variable {
 public:
  Variable(VariableSpec spec, Tensor value) : spec_(std::move(spec)), value_(std::move(value)) {}
  const VariableSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }
  // Returns the leaf tensor. It requires a gradient when the variable is trainable.
  const Tensor& value() const { return value_; }
  // Returns it for replacement.
  Tensor& value() { return value_; }

  // Returns the rows (axis 0) with these numbers: `ids` is int64 or int32 of any shape, the result
  // is [ids' shape, the row's shape]. Gradients flow back; while autograd records, each call on a
  // row-sparse variable is recorded as a use. Throws InvalidArgument for another dtype, and for a
  // number outside of the table; the error says where it is.
  Tensor rows(const Tensor& ids);
  // Rows, and the position of the row of each requested number.
  struct PlacedRows {
    Tensor rows{};    // [n, the row's shape]
    Tensor places{};  // int64 of the shape of the ids, in [0, n); below 0 where the id is
  };
  // Returns the rows for operations that read them in place: rows(ids) is rows.index_select(0,
  // places). An id below 0 means no row. Throws the errors of rows(). REQUIRES: the variable is on
  // the CPU.
  PlacedRows placed_rows(const Tensor& ids);
  // A RowUse holds the numbers of the used rows, int64 [n], sorted and without repetition, and the
  // leaf [n, ...] that gets their gradient.
  struct RowUse {
    Tensor ids{};
    Tensor rows{};
  };
  // Reads the rows with these numbers, int64 [n], sorted and unique, into [n, the row's shape].
  using RowReader = std::function<Tensor(const Tensor& ids)>;
  // From now on `reader` reads the rows, for a table stored elsewhere: value() then only has its
  // shape.
  void read_rows_by(RowReader reader) { reader_ = std::move(reader); }
  // Whether the table is stored elsewhere.
  bool is_elsewhere() const { return static_cast<bool>(reader_); }
  // Returns the uses since they were last taken, in the order of the calls.
  const std::vector<RowUse>& row_uses() const { return row_uses_; }
  std::vector<RowUse> take_row_uses() { return std::exchange(row_uses_, {}); }  // and forgets them

 private:
  // Whether the gradient covers only the rows that are read.
  bool notes_uses() const;
  // Reads the rows with these numbers, int64 and contiguous, on the variable's device; `noted`
  // records a use.
  PlacedRows use(const Tensor& ids, bool noted);

  VariableSpec spec_;
  Tensor value_;
  RowReader reader_;
  std::vector<RowUse> row_uses_;
};

// A VariableStore holds variables by name. The strategy creates one for each replica.
class MUSTER_EXPORT VariableStore {
 public:
  virtual ~VariableStore() = default;

  // Creates the variable of that name at the first call, and returns it at later ones. Throws
  // InvalidArgument when a later call has another shape or dtype (the error shows both), and for a
  // new name when the store is sealed.
  virtual Variable& get_or_create(const VariableSpec& spec) = 0;
  // Returns all variables in creation order.
  virtual const std::vector<std::unique_ptr<Variable>>& variables() const = 0;
  // Returns nullptr when there is none.
  virtual Variable* find(const std::string& name) const = 0;
  // Returns the device of its variables.
  virtual Device device() const { return at::kCPU; }
};

// Returns the sum of the penalties of the variables with a regularizer, including those that do not
// train: a float64 scalar without a graph, or an undefined tensor if there is no regularizer.
MUSTER_EXPORT Tensor regularization_loss(const VariableStore& variables);

}  // namespace muster::inline v0_1
