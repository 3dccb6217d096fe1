#include "muster/distribute/distributed_dataset.h"

#include <deque>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/distribute/input_position.h"
#include "muster/distribute/internal/data_progress.h"
#include "muster/distribute/internal/loop.h"
#include "muster/tensor/device_copier.h"
#include "muster/tensor/element_spec.h"

namespace muster::inline v0_1::distribute {

using nlohmann::json;

class DistributedDataset::Pass {
 public:
  // `resumed`: what save() gave.
  Pass(std::shared_ptr<Loop> loop, const Dataset& dataset, bool for_this_process, uint64_t number,
       std::weak_ptr<Progress> progress, const std::optional<json>& resumed)
      : loop_(std::move(loop)),
        progress_(std::move(progress)),
        number_(number),
        by_process_(for_this_process),
        iterators_(loop_->num_local_replicas()),
        copiers_(loop_->num_local_replicas()),
        empty_(loop_->num_local_replicas()),
        elements_(loop_->num_local_replicas()) {
    loop_->each([&](Session& session, size_t local) {
      ReplicaInput input =
          for_this_process
              ? ReplicaInput{session.distribute_locally(dataset, {.pass = number}), true}
              : session.distribute(dataset, {.global_batches = true, .pass = number});
      if (local == 0) by_process_ = input.by_process;
      iterators_[local] = std::move(input.iterator);
      copiers_[local].emplace(session.device());
      if (resumed) {
        restore_position(session, *iterators_[local], resumed->at("data"), input.by_process);
      }
    });
  }

  // Its number and the position behind the last batch. All replicas take part.
  json save() const {
    json data;
    loop_->each([&](Session& session, size_t local) {
      json mine = save_position(session, iterators_[local]->save(), by_process_);
      if (local == 0) data = std::move(mine);
    });
    return {{"number", number_}, {"data", data}};
  }

  // False when no replica has anything left.
  bool next(PerReplica<Batch>* out) {
    std::deque<Batch> batches(iterators_.size());
    bool any = false;
    loop_->each([&](Session& session, size_t local) {
      bool has = iterators_[local]->next(&elements_[local]);
      // Dealt by Muster, all end together; else they have to ask.
      if (by_process_ && session.num_replicas_in_sync() > session.num_local_replicas())
        has = ask(session, local, has);
      if (has) batches[local] = to_batch((*copiers_[local])(elements_[local]));
      if (local == 0) any = has;
    });
    *out = PerReplica<Batch>(std::move(batches));
    const auto progress = progress_.lock();
    if (!any && progress) {
      ++progress->completed;
      if (progress->current.get() == this) progress->current.reset();
    }
    return any;
  }

 private:
  // Whether any replica has data; one without takes zero rows.
  bool ask(Session& session, size_t local, bool has) {
    if (!empty_[local]) {
      if (has) (void)to_batch(elements_[local]);  // refuses what is no batch
      std::string spec = has ? encode_batch_spec(elements_[local]) : "";
      for (const std::string& other : session.gather_text("batch_spec", spec)) {
        if (spec.empty()) spec = other;
      }
      if (spec.empty()) return false;
      empty_[local] = zero_rows(spec);
    }
    const Tensor here = torch::full({}, has ? 1 : 0, at::kLong);
    if (session.reduce(ReduceOp::kSum, here).item<int64_t>() == 0) return false;
    if (!has) elements_[local] = *empty_[local];
    return true;
  }

  std::shared_ptr<Loop> loop_;
  std::weak_ptr<Progress> progress_;
  uint64_t number_;
  bool by_process_;
  std::vector<std::unique_ptr<muster::Iterator>> iterators_;
  std::vector<std::optional<DeviceCopier>> copiers_;
  std::vector<std::optional<Element>> empty_;
  std::vector<Element> elements_;
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

int64_t DistributedDataset::completed_passes() const { return progress_->completed; }

DistributedDataset::Iterator DistributedDataset::begin() {
  const std::optional<json> resumed = std::exchange(progress_->resumed, std::nullopt);
  const uint64_t number = resumed ? resumed->at("number").get<uint64_t>() : progress_->begun++;
  const auto pass =
      std::make_shared<Pass>(loop_, dataset_, for_this_process_, number, progress_, resumed);
  progress_->current = pass;
  return Iterator(pass);
}

json DistributedDataset::Progress::save() const {
  json state{{"begun", begun}, {"completed", completed}};
  if (current) {
    state["pass"] = current->save();
  } else if (resumed) {
    state["pass"] = *resumed;  // restored, and not begun yet
  }
  return state;
}

void DistributedDataset::Progress::restore(const json& state) {
  begun = state.at("begun").get<uint64_t>();
  completed = state.at("completed").get<int64_t>();
  current.reset();
  resumed.reset();
  if (state.contains("pass")) resumed = state.at("pass");
}

}  // namespace muster::inline v0_1::distribute
