// The steps of a fit() whose weights live on parameter servers: workers make them, and the chief
// receives the result of each. Thread safety: belongs to the thread of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/keras/internal/model_impl.h"
#include "muster/loop/scheduled_steps.h"
#include "muster/optim/optimizer.h"

namespace muster::inline v0_1::keras::internal {

struct ServedStepsOptions {
  std::vector<double> class_weight{};
  std::string backup_dir{};
  // On the chief: the notes that a backup holds in addition to the weights.
  std::function<std::map<std::string, std::string>()> notes{};
};

class ServedSteps {
 public:
  // The model outlives it. All tasks make it, with the same data.
  ServedSteps(Model::Impl& model, const Dataset& data, ServedStepsOptions options);

  // A worker makes steps, a server holds weights, both until the chief is through; then it returns
  // true. On the chief it returns false: the run has begun, or continues. From now on until end()
  // the model brings the weights here whenever it is asked for them. Throws the errors of
  // ScheduledSteps::serve().
  bool serve();

  // The result of notes() in the backup from which the run continues; empty without one.
  const std::map<std::string, std::string>& restored_notes() const {
    return steps_->restored_notes();
  }
  // Updates so far, of all workers.
  int64_t step();
  // The measurements of the next step, in the order in which steps were scheduled. `left`: how many
  // steps are wanted, this one included; that many may be under way. Throws the errors of
  // ScheduledSteps::fetch(), which saves if this task was asked to stop.
  BatchResult next(int64_t left);
  // Returns whether it has saved; up to `max_failed_saves` saves in a row may fail. REQUIRES: no
  // step is under way, except those counted in `left` of next().
  bool save(int64_t max_failed_saves) { return steps_->save(max_failed_saves); }

 private:
  std::vector<Tensor> train(const Batch& batch);

  Model::Impl& model_;
  const std::vector<double> class_weight_;
  const optim::Optimizer optimizer_;
  std::unique_ptr<distribute::ScheduledSteps> steps_;
  std::vector<Metric> metrics_;  // of no rows: the forms of the states that workers send
  int64_t under_way_ = 0;
};

}  // namespace muster::inline v0_1::keras::internal
