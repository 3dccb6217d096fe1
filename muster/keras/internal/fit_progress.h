// What fit() prints: a bar while an epoch goes on, and a line behind it.
// Thread safety: belongs to the thread of the model.
#pragma once

#include <cstdint>
#include <functional>

#include "muster/base/clock.h"
#include "muster/keras/callback.h"
#include "muster/keras/model.h"

namespace muster::inline v0_1::keras::internal {

class FitProgress {
 public:
  // Of a process that does not speak for its cluster, nothing is printed.
  FitProgress(Verbose verbose, bool speaks, int64_t epochs, Clock& clock);

  // `steps`: of this epoch; -1 where nobody knows. `done`: those that a run before this one made.
  void begin_epoch(int64_t epoch, int64_t steps, int64_t done);
  // `logs` is asked only where something is shown.
  void step(int64_t rows, const std::function<Logs()>& logs);
  // The training is over, and the validation begins.
  void end_training();
  void end_epoch(const Logs& logs);

 private:
  const bool lines_, live_;
  const int64_t epochs_;
  Clock& clock_;
  const bool unicode_;
  int64_t epoch_ = 0, steps_ = -1, done_ = 0, made_ = 0, rows_ = 0;
  TimePoint begun_, shown_, trained_;
};

}  // namespace muster::inline v0_1::keras::internal
