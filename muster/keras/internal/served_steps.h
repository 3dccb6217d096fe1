// The steps of a fit() whose weights live on parameter servers: workers make them, and the chief
// hears of each. Thread safety: belongs to the thread of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/keras/internal/model_impl.h"
#include "muster/loop/scheduled_steps.h"
#include "muster/optim/optimizer.h"
#include "muster/train/checkpoint_writer.h"

namespace muster::inline v0_1::keras::internal {

struct ServedStepsOptions {
  std::vector<double> class_weight{};
  std::string backup_dir{};
  // On the chief: what a backup is to hold in addition to the weights; and what writes the files
  // that belong next to it.
  std::function<std::map<std::string, std::string>()> notes{};
  std::function<BeforeSave()> beside{};
};

class ServedSteps {
 public:
  // The model outlives it. All tasks make it, with the same data.
  ServedSteps(Model::Impl& model, const Dataset& data, ServedStepsOptions options);

  // A worker makes steps, a server holds weights, both until the chief is through; then true. On
  // the chief false: the run has begun, or goes on. From now on until end() the model brings the
  // weights here whenever it is asked for them. Throws what ScheduledSteps::serve() throws.
  bool serve();

  // What notes() has given with the backup that the run continues from; empty without one.
  const std::map<std::string, std::string>& restored_notes() const {
    return steps_->restored_notes();
  }
  // Updates so far, of all workers.
  int64_t step();
  // What the next step has measured, in the order in which they were scheduled. `left`: how many
  // are wanted, this one among them; so many may be under way. Throws what ScheduledSteps::fetch()
  // throws, which saves where this task was told to stop.
  BatchResult next(int64_t left);
  // As ScheduledSteps::save(). REQUIRES: no step is under way, except for those that next() was
  // told of.
  std::optional<bool> save(int64_t max_failed_saves, bool asynchronous) {
    return steps_->save(max_failed_saves, asynchronous);
  }
  bool settle_save() { return steps_->settle_save(); }
  bool await_save() noexcept { return steps_->await_save(); }

 private:
  std::vector<Tensor> train(const Batch& batch);

  Model::Impl& model_;
  const std::vector<double> class_weight_;
  const optim::Optimizer optimizer_;
  std::unique_ptr<distribute::ScheduledSteps> steps_;
  std::vector<Metric> metrics_;  // of no rows: what states that workers send are states of
  int64_t under_way_ = 0;
};

}  // namespace muster::inline v0_1::keras::internal
