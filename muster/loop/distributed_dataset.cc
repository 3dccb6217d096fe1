#include "muster/loop/distributed_dataset.h"

#include <fmt/format.h>

#include <deque>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/stop_scope.h"
#include "muster/distribute/elastic_run.h"
#include "muster/distribute/replica_input.h"
#include "muster/loop/internal/data_progress.h"
#include "muster/loop/internal/loop.h"
#include "muster/plan/activity.h"
#include "muster/tensor/device_copier.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

class DistributedDataset::Pass {
 public:
  // `resumed`: what save() gave.
  Pass(std::shared_ptr<Loop> loop, const Dataset& dataset, bool for_this_process, int64_t number,
       std::weak_ptr<Progress> progress, const std::optional<json>& resumed)
      : loop_(std::move(loop)),
        progress_(std::move(progress)),
        number_(number),
        parts_(loop_->num_local_replicas()) {
    loop_->each("a pass over a distributed data set", [&](Replica& replica, size_t local) {
      Part& part = parts_[local];
      const data::StopScope stops_waits([loop = loop_.get()] { return loop->stops_by_itself(); });
      // batch(n) of a data set that describes all data means n over all replicas.
      part.input.emplace(
          replica, dataset, for_this_process,
          data::DistributeOptions{.global_batches = !for_this_process, .pass = number});
      part.copier.emplace(replica.device());
      if (!replica.place().in_sync) {
        pipeline_ = part.input->batches().save().at("pipeline");
        if (resumed) part.input->batches().restore(resumed->at("data"));
        return;
      }
      if (local == 0 && !part.input->by_process())
        pipeline_ = part.input->batches().save().at("pipeline");
      if (loop_->elastic() && !for_this_process) check_divided(*part.input);
      // Before a position is restored, which fits the right data alone.
      if (!part.input->by_process()) part.input->check_same_data();
      if (resumed) resume(*part.input, resumed->at("data"));
      if (!part.input->by_process() || replica.place().processes == 1) return;
      part.any_data = part.input->agree_on_form();
      // If all processes know how many batches they have, they need not ask for each.
      part.left = part.input->remaining_over_all();
    });
  }

  // The identity of what it reads, which positions must have; null where each process reads data of
  // its own, whose files may be other ones now.
  const json& pipeline() const { return pipeline_; }

  // Its number and the position after the last batch. All replicas take part, unless Muster divides
  // the data.
  json save() const {
    // An elastic run calls this in each step, and lists of initializers would copy their values.
    json state = json::object();
    state["number"] = number_;
    ReplicaInput& first = *parts_.front().input;
    if (!loop_->first().place().in_sync) {
      // A worker at its own pace needs no agreement: a step says it as it is committed.
      state["data"] = first.batches().save();
    } else if (!first.by_process()) {
      state["data"] = first.save();
    } else {
      loop_->each("Scope::save()", [&](Replica&, size_t local) {
        json mine = parts_[local].input->save();
        if (local == 0) state["data"] = std::move(mine);
      });
    }
    return state;
  }

  // Its replicas end.
  void end() { parts_.clear(); }

  // False when no replica has anything left.
  bool next(PerReplica<Batch>* out) {
    if (parts_.empty()) {
      throw invalid_argument("the workers have changed since this pass over the data began",
                             "begin another one: a loop over strategy->distribute(dataset)");
    }
    loop_->check_own_training();
    std::deque<Batch> batches(parts_.size());
    bool any = false;
    loop_->each("the next batch of a distributed data set", [&](Replica& replica, size_t local) {
      Part& part = parts_[local];
      const plan::InActivity reads(loop_->trains() ? plan::Activity::kInput
                                                   : plan::Activity::kEvaluating);
      bool has = part.input->batches().read(&part.element);
      // Where a pass is divided, its last batch may have rows for some workers alone.
      while (has && !replica.place().in_sync && part.element.rows() == 0)
        has = part.input->batches().read(&part.element);
      // Divided by Muster, all end together.
      if (part.input->by_process() && replica.place().in_sync && replica.place().processes > 1)
        has = any_has(replica, part, has);
      if (has) batches[local] = to_batch((*part.copier)(part.element));
      if (loop_->trains() && plan::this_activity().wants_example()) {
        const Position at = part.input->batches().position();
        plan::this_activity().set_example(loop_->step(), number_ + at.epoch, at.element_in_epoch);
        if (replica.place().in_sync) {
          const int64_t left = part.input->batches().remaining();
          plan::this_activity().set_last_step(
              loop_->shown_last_step(has && left >= 0 ? left + 1 : left));
        }
      }
      if (local == 0) any = has;
    });
    *out = PerReplica<Batch>(std::move(batches));
    const auto progress = progress_.lock();
    // A wait for data ends where this task is asked to stop; then the pass is not over. Several
    // replicas count the same passes, and are not all asked at once.
    const bool stopped = loop_->first().place().replicas() == 1 && loop_->stops_by_itself();
    if (!any && progress && !stopped) {
      ++progress->completed;
      if (progress->current.get() == this) progress->current.reset();
    }
    return any;
  }

 private:
  struct Part {
    std::optional<ReplicaInput> input;
    std::optional<DeviceCopier> copier;
    Element element;
    bool any_data = true;  // on any replica
    int64_t left = -1;     // batches until the last process is out of data; below 0 when unknown
  };

  static void resume(ReplicaInput& input, const json& position) {
    try {
      input.restore(position);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalidArgument) throw;
      throw invalid_argument(error.message(),
                             error.hint() +
                                 "; a checkpoint's positions go to the data sets of a scope in the "
                                 "order of distribute(): keep to that of the run that saved");
    }
  }

  // Whether any replica has data; one without has read zero rows.
  static bool any_has(Replica& replica, Part& part, bool has) {
    if (!part.any_data) return false;
    if (part.left >= 0) {
      const bool any = part.left > 0;
      if (any) --part.left;
      return any;
    }
    const Tensor here = torch::full({}, has ? 1 : 0, at::kLong);
    return replica.exchange().reduce(ReduceOp::kSum, here).item<int64_t>() > 0;
  }

  std::shared_ptr<Loop> loop_;
  std::weak_ptr<Progress> progress_;
  int64_t number_;
  json pipeline_;
  mutable std::vector<Part> parts_;  // by replica of this process
};

DistributedDataset::Iterator::Iterator(std::shared_ptr<Pass> pass) : pass_(std::move(pass)) {
  ++*this;
}

DistributedDataset::Iterator& DistributedDataset::Iterator::operator++() {
  if (!pass_->next(&batch_)) pass_.reset();
  return *this;
}

DistributedDataset::DistributedDataset(std::shared_ptr<Loop> loop, Dataset dataset,
                                       bool for_this_process, std::shared_ptr<Progress> progress)
    : loop_(std::move(loop)),
      dataset_(std::move(dataset)),
      for_this_process_(for_this_process),
      progress_(std::move(progress)) {}

int64_t DistributedDataset::completed_passes() const {
  loop_->find_place();
  return progress_->completed;
}

DistributedDataset::Iterator DistributedDataset::begin() {
  loop_->find_place();
  if (loop_->over()) {
    ++progress_->completed;
    return {};
  }
  const std::optional<json> resumed = std::exchange(progress_->resumed, std::nullopt);
  const auto open = [&] {
    const int64_t number = resumed ? resumed->at("number").get<int64_t>() : progress_->begun++;
    return std::make_shared<Pass>(loop_, dataset_, for_this_process_, number, progress_, resumed);
  };
  auto pass = open();
  const std::optional<json> restored = std::exchange(progress_->restored, std::nullopt);
  const json before = std::exchange(progress_->pipeline, pass->pipeline());
  if (restored && !resumed && before.is_object() && pass->pipeline().is_object() &&
      before != pass->pipeline()) {
    log::warning(fmt::format(
        "the checkpoint counts {} passes of another data set than this one, {}: this data set "
        "starts from its beginning, and the next one distributed in its place gets the count; "
        "distribute data sets in the same order as in the run that saved",
        progress_->completed, dataset_.describe()));
    loop_->give_back(*progress_, *restored);
    progress_->begun = 0;
    progress_->completed = 0;
    pass = open();
  }
  progress_->current = pass;
  return Iterator(pass);
}

DistributedDataset::Progress::Place DistributedDataset::Progress::place() const {
  // One that was restored may not have begun yet.
  return {.begun = begun,
          .completed = completed,
          .pass = current ? current->save() : resumed.value_or(json())};
}

json DistributedDataset::Progress::save(const Place& at) const {
  json state{{"begun", at.begun}, {"completed", at.completed}};
  if (!pipeline.is_null()) state["pipeline"] = pipeline;
  if (!at.pass.is_null()) state["pass"] = at.pass;
  return state;
}

void DistributedDataset::Progress::end() {
  if (current) current->end();
  current.reset();
}

void DistributedDataset::Progress::restore(const json& state) {
  begun = state.at("begun").get<int64_t>();
  completed = state.at("completed").get<int64_t>();
  current.reset();
  resumed.reset();
  if (state.contains("pass")) resumed = state.at("pass");
  restored = state;
  pipeline = state.value("pipeline", json());
}

namespace {

Loop& loop_of(const Strategy& strategy, const char* verb) {
  return static_cast<Loop&>(entered_loop(strategy, verb));
}

}  // namespace

DistributedDataset distribute_data(const Strategy& strategy, const Dataset& dataset) {
  return loop_of(strategy, "distribute()").distribute(dataset, /*for_this_process=*/false);
}

DistributedDataset distribute_data(const Strategy& strategy,
                                   const std::function<Dataset(const InputContext&)>& fn) {
  Loop& loop = loop_of(strategy, "distribute_from_function()");
  return loop.distribute(fn(loop.first().input_context()), /*for_this_process=*/true);
}

}  // namespace muster::inline v0_1::distribute
