// Reduces a learning rate on a plateau of the training loss. Thread safety: values and pure
// functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "muster/base/export.h"

namespace muster::inline v0_1::optim {

class Optimizer;  // "muster/optim/optimizer.h"

// Options of reduce_on_plateau().
struct MUSTER_EXPORT ReduceOnPlateauOptions {
  int64_t steps = 1000;          // updates whose mean loss is one value, like Keras's epoch; >= 1
  double factor = 0.1;           // multiplies the learning rate; above 0 and below 1
  int64_t patience = 10;         // values in a row without improvement before it is reduced; >= 0
  double min_delta = 1e-4;       // a value is an improvement if it is lower by more than this; >= 0
  int64_t cooldown = 0;          // values after a reduction that are ignored; >= 0
  double min_learning_rate = 0;  // the lower bound of the reduced rate; >= 0

  bool operator==(const ReduceOnPlateauOptions&) const = default;
  std::string describe() const;  // "reduce_on_plateau(steps=1000, factor=0.1, ...)"
};

// The state of the reduction; saved as "<optimizer>/plateau", float64 [6] in this order.
struct Plateau {
  double factor = 1;  // of the learning rate
  double best = std::numeric_limits<double>::max();
  double wait = 0;      // values in a row without improvement
  double cooldown = 0;  // values still to be ignored
  double sum = 0;       // of the losses of this value so far, and their number
  double count = 0;
};
// Returns the state after the loss of one more update.
MUSTER_EXPORT Plateau next_plateau(const ReduceOnPlateauOptions& options, const Plateau& now,
                                   double loss);
// Returns the reduced learning rate.
MUSTER_EXPORT double reduced_rate(const ReduceOnPlateauOptions& options, const Plateau& now,
                                  double rate);

// Returns the optimizer with a learning rate, a number or a schedule, that is multiplied by
// `factor` each time the training loss has stopped falling. The loss is that of the step over all
// replicas, so all have the same rate; a run that resumes continues with its state. Throws
// InvalidArgument that names the field, its value and the range, and for an optimizer whose rate is
// reduced already.
// Source: tf.keras.callbacks.ReduceLROnPlateau with monitor="loss" and mode="min"; `steps` updates
// are its epoch.
MUSTER_EXPORT Optimizer reduce_on_plateau(Optimizer optimizer,
                                          const ReduceOnPlateauOptions& options = {});

}  // namespace muster::inline v0_1::optim
