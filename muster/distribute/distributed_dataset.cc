#include "muster/distribute/distributed_dataset.h"

#include <deque>
#include <vector>

#include "muster/distribute/internal/loop.h"
#include "muster/tensor/element_spec.h"

namespace muster::inline v0_1::distribute {

class DistributedDataset::Pass {
 public:
  Pass(std::shared_ptr<Loop> loop, const Dataset& dataset, bool for_this_process, uint64_t number)
      : loop_(std::move(loop)),
        by_process_(for_this_process || dataset.hand_sharded()),
        iterators_(loop_->num_local_replicas()),
        empty_(loop_->num_local_replicas()),
        elements_(loop_->num_local_replicas()) {
    loop_->each([&](Session& session, size_t local) {
      iterators_[local] =
          for_this_process
              ? session.distribute_locally(dataset, {.pass = number})
              : session.distribute(dataset, {.global_batches = !by_process_, .pass = number});
    });
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
      if (has) batches[local] = to_batch(elements_[local]);
      if (local == 0) any = has;
    });
    *out = PerReplica<Batch>(std::move(batches));
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
    const Tensor here = torch::full({}, has ? 1 : 0, torch::kInt64);
    if (session.reduce(ReduceOp::kSum, here).item<int64_t>() == 0) return false;
    if (!has) elements_[local] = *empty_[local];
    return true;
  }

  std::shared_ptr<Loop> loop_;
  bool by_process_;
  std::vector<std::unique_ptr<muster::Iterator>> iterators_;
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

DistributedDataset::Iterator DistributedDataset::begin() {
  return Iterator(std::make_shared<Pass>(loop_, dataset_, for_this_process_, passes_++));
}

}  // namespace muster::inline v0_1::distribute
