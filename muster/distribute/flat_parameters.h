// FlatParameters holds what training changes in flat memory: the weights a train_op updates, their
// optimizer slots and counters. Thread safety: it belongs to the training thread.
//
// Weights of one dtype lie in one buffer, sorted by optimizer and then in creation order, each
// aligned to 64 bytes; so an optimizer updates one contiguous run, and a gradient buffer of the
// same layout is reduced in few pieces. Row-sparse variables stay where they are: see row_tables.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/distribute/gradient_layout.h"
#include "muster/distribute/loss_scales.h"
#include "muster/distribute/plateaus.h"
#include "muster/distribute/row_tables.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"

namespace muster::inline v0_1::distribute {

class MUSTER_PART_EXPORT FlatParameters {
 public:
  // A Parameter says where one weight lies.
  struct Parameter {
    Variable* variable = nullptr;
    int optimizer = 0;   // index into optimizers()
    int buffer = 0;      // index into buffers()
    int64_t offset = 0;  // elements, in the buffer
    int64_t elements = 0;
    int64_t padded = 0;  // elements with the padding after it
  };
  // A Buffer holds all weights of one dtype.
  struct Buffer {
    DType dtype = kFloat32;
    int64_t elements = 0;
    Tensor weights{};  // [elements]
  };
  using Allocate = std::function<Tensor(int64_t bytes)>;  // uint8, zeroed, aligned to 64 bytes

  // Moves the trainable variables of `table` that `train_op` names into flat buffers made by
  // `allocate`; the others stop requiring gradients. Throws InvalidArgument when a variable is
  // claimed by two entries, when two optimizers share a name, when a weight is of a dtype that
  // cannot train, or when nothing is left to train.
  FlatParameters(VariableTable& table, const optim::TrainOp& train_op, const Allocate& allocate);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Buffer>& buffers() const { return buffers_; }
  // Gives the places of the gradients in buffers of the same layout.
  GradientLayout layout() const;
  // Throws InvalidArgument unless `train_op` has the entries of the one the layout was made for.
  void check_entries(const optim::TrainOp& train_op) const;
  // Gives the parameters of entry `entry` of the train_op.
  const std::vector<int>& entry_parameters(size_t entry) const { return entry_parameters_[entry]; }

  // Gives the row-sparse variables, which are in no buffer.
  RowTables& tables() { return tables_; }
  const RowTables& tables() const { return tables_; }
  // Gives the tables of entry `entry` of the train_op, by index.
  const std::vector<int>& entry_tables(size_t entry) const { return entry_tables_[entry]; }

  // Gives what the loss of entry `entry` of the train_op is multiplied by: 1 without loss scaling.
  double loss_scale(size_t entry) const {
    return loss_scales_.scale(static_cast<size_t>(optimizer_of_entry_[entry]));
  }

  // Makes one update with gradients in buffers of the same layout: w -= ... gradient * scale.
  // `used[p]` tells whether parameter p had a gradient on any replica; a parameter that had none
  // stays as it is, slots included. `rows` holds the gradients of the tables, one each. First the
  // derivatives of the regularizers are added, so that a parameter with one always has a gradient.
  // Then come the optimizers' transformations, and what they throw comes before anything is
  // updated. Both may write the gradients. These are of losses times loss_scale(); where a scale is
  // dynamic and a gradient not finite, its optimizer updates nothing. At the end constraints change
  // what was updated. `decided` is what others have decided about this update.
  struct Decided {
    std::vector<bool> updates{};    // [optimizer]: whether it makes one; empty: all do
    std::vector<double> factors{};  // [optimizer], of plateaus; empty: those that are here
  };
  void update_flat(const optim::TrainOp& train_op, const std::vector<Tensor>& gradients,
                   const std::vector<bool>& used, const std::vector<RowGradient>& rows,
                   double scale, const Decided& decided);
  // The same where nothing was decided elsewhere.
  void update_flat(const optim::TrainOp& train_op, const std::vector<Tensor>& gradients,
                   const std::vector<bool>& used, const std::vector<RowGradient>& rows,
                   double scale) {
    update_flat(train_op, gradients, used, rows, scale, {});
  }
  // Makes one update with the gradients that autograd left in the variables (undefined: unused) and
  // those that the tables have collected; it takes them away.
  void update_in_place(const optim::TrainOp& train_op, double scale);
  // What an update that is made elsewhere needs.
  struct Prepared {
    std::vector<Tensor> gradients{};  // [parameter], in its shape, contiguous; undefined: unused
    std::vector<RowGradient> rows{};  // [table]
    std::vector<bool> updates{};      // [optimizer]: false where its loss scale was too large
  };
  // Does what update_in_place() does with gradients, transformations included, takes them away, and
  // gives them, scaled, in place of an update. Loss scales follow.
  Prepared take_prepared(const optim::TrainOp& train_op, double scale);
  // Throws InvalidArgument, with their names, where an optimizer makes a step and none of its
  // variables has a gradient: it would only count. `used` is that of update_flat().
  void check_some_gradient(const optim::TrainOp& train_op, const std::vector<bool>& used) const;
  void check_some_gradient_in_place(const optim::TrainOp& train_op) const;
  // Whether all gradients are finite that update_flat() or update_in_place() would use now; those
  // of optimizers with a dynamic loss scale do not matter.
  bool finite(const std::vector<Tensor>& gradients, const std::vector<bool>& used,
              const std::vector<RowGradient>& rows) const;
  bool finite_in_place() const;
  // Takes away, unused, what update_in_place() would use.
  void drop_in_place();
  // Tells the optimizers that made the last update what its loss was, for the next one's rates.
  void note_loss(double loss);
  // Takes the gradients autograd left in the variables and adds them to those taken before; and
  // puts their sum back, for update_in_place().
  void add_in_place();
  void put_back_in_place();

  // Gives the learning rates of the last update by name: "learning_rate" where there is one
  // optimizer, "<optimizer>/learning_rate" where there are several; of those whose rate is a
  // schedule or may be reduced. Nothing before the first update.
  std::map<std::string, double> learning_rates() const;

  // Gives slots and counters by checkpoint name ("Adam/m/dense/kernel", "Adam/iterations"). They
  // are views: writing them changes the optimizer.
  std::map<std::string, Tensor> slots() const;
  // Slots that begin as the weights become what the weights are now: those were written after the
  // constructor, and before the first update.
  void begin_slots();
  // Gives everything that has to be equal on all replicas, in few contiguous pieces.
  std::vector<Tensor> pieces() const;

 private:
  struct OptimizerState {
    std::string name{};
    Tensor iterations{};                        // int64 scalar
    std::vector<optim::SlotSpec> slot_specs{};  // none where variables differ in their slots
    std::optional<double> scheduled_rate{};     // of the last update
    double rate_multiplier = 1;                 // of this update, by what is reduced
    std::vector<std::vector<Tensor>> slots{};   // [slot][buffer], the length of its range
    std::vector<std::pair<int64_t, int64_t>> ranges{};  // [buffer]: first and one past last element
  };

  // A slot of one parameter, in its own memory and shape.
  struct OwnSlot {
    std::string name{};
    Tensor values{};
    bool begins_as_weights = false;
  };

  // Makes an OptimizerState for each name, and finds the one of each entry.
  void name_optimizers(const optim::TrainOp& train_op);
  // Gives the entry that trains the variable, and none when every filter leaves it out.
  static std::optional<size_t> owner_of(const Variable& variable, const optim::TrainOp& train_op);
  // Gives each variable its optimizer; dense ones become parameters_, row-sparse ones tables_.
  void assign(VariableTable& table, const optim::TrainOp& train_op);
  void lay_out(const Allocate& allocate);
  void move_into_buffer(const Parameter& parameter);
  void lay_out_slots();
  const optim::Optimizer& rule_of(const optim::TrainOp& train_op, int optimizer) const;
  // Adds the derivative of the regularizer of parameter p, where it has one, to its gradient, which
  // is to be multiplied by `scale` later.
  void add_penalty(size_t parameter, const Tensor& gradient, double scale) const;
  // Adds them to gradients in buffers, and gives `used` with the parameters that have one.
  std::vector<bool> add_penalties(const std::vector<Tensor>& gradients, std::vector<bool> used,
                                  double scale) const;
  // Adds them to the gradients autograd left; an undefined one is made.
  void add_penalties_in_place(double scale) const;
  // Applies the constraint of parameter p, where it has one.
  void constrain(size_t parameter) const;
  // Gives the gradient of parameter p, in its shape, in buffers of this layout.
  Tensor gradient_in(const std::vector<Tensor>& gradients, size_t parameter) const;
  // Sets rests_ by what `train_op` says, and updates_ by that and by looking at the gradients of
  // those whose loss scale is dynamic. Throws NonFinite where a smaller scale is not a remedy.
  template <typename GradientOf>
  bool finite_parameters(GradientOf gradient_of) const;
  template <typename GradientOf>
  void judge_gradients(const optim::TrainOp& train_op, GradientOf gradient_of,
                       const std::vector<RowGradient>& rows);
  // Then lets each optimizer transform its gradients, and sets scales_. `gradient_of(p)` gives the
  // gradient of parameter p, undefined when it has none, and `scale` belongs to it. Throws what
  // transformations throw.
  template <typename GradientOf>
  void transform_gradients(const optim::TrainOp& train_op, GradientOf gradient_of,
                           const std::vector<RowGradient>& rows, double scale);
  // Sets the rates of this update, of the optimizers that make one.
  void set_rates(const optim::TrainOp& train_op);
  // Updates the tables, and then the counters of all optimizers that update, and the loss scales.
  void update_rows(const optim::TrainOp& train_op, const std::vector<RowGradient>& rows);
  // Gives the weights and slots of elements [begin, end) of a buffer, without a gradient.
  optim::Segment segment(const OptimizerState& state, int buffer, int64_t begin, int64_t end) const;
  void add_own_slots(size_t parameter, optim::Segment& segment) const;

  std::vector<Parameter> parameters_;
  // Whether one of them has a regularizer, or a constraint.
  bool regularized_ = false, constrained_ = false;
  std::vector<Buffer> buffers_;
  std::vector<OptimizerState> optimizers_;
  std::vector<std::vector<OwnSlot>>
      own_slots_;  // [parameter]; where variables differ in their slots
  std::vector<int> optimizer_of_entry_;
  std::vector<std::vector<int>> entry_parameters_;
  RowTables tables_;
  std::vector<std::vector<int>> entry_tables_;
  std::vector<Tensor> added_;             // [parameter], by add_in_place()
  std::vector<optim::Segment> segments_;  // [parameter]
  LossScales loss_scales_;
  Plateaus plateaus_;
  std::vector<bool> rests_;     // [optimizer]: whether all of its entries rest in this step
  std::vector<bool> updates_;   // [optimizer]: whether it makes an update in this step
  std::vector<double> scales_;  // [optimizer]: what its gradients are multiplied by in this step
};

}  // namespace muster::inline v0_1::distribute
