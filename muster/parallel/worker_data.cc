#include "muster/parallel/worker_data.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/stop_scope.h"
#include "muster/parallel/internal/worker_data_impl.h"

namespace muster::inline v0_1 {

using nlohmann::json;

WorkerData::Impl::Impl(std::shared_ptr<Cluster::Impl> cluster, Dataset dataset)
    : cluster_(std::move(cluster)), dataset_(std::move(dataset)) {
  open();
  input_->check_same_data();
}

void WorkerData::Impl::open() {
  const data::StopScope stops_waits([cluster = cluster_.get()] { return cluster->cancelled(); });
  input_.emplace(cluster_->replica(), dataset_, /*for_this_process=*/false,
                 data::DistributeOptions{.global_batches = true, .pass = pass_});
}

std::optional<Batch> WorkerData::Impl::next() {
  cluster_->check_ready();
  internal::LoopView& view = cluster_->view();
  const plan::OnActivity on(view.record());
  const plan::Activity reading = view.reading();
  const plan::InActivity reads(reading);
  if (ended_) {
    ++pass_;
    ended_ = false;
    open();
  }
  std::optional<Element> element = input_->batches().next();
  if (element && element->rows() == 0) {
    element = input_->batches().next();
    if (element) {
      throw invalid_argument(
          "a batch of the data has no rows for " + cluster_->replica().place().name() +
              ", and others follow it",
          "repeat() before batch(), or drop_remainder in the options of batch()");
    }
  }
  ended_ = !element && !cluster_->cancelled();  // it stops waiting for data then
  if (!element) return std::nullopt;
  if (view.record().wants_example()) {
    const Position at = input_->batches().position();
    view.record().set_example(view.step(), pass_ + at.epoch, at.element_in_epoch);
    const int64_t left = input_->batches().remaining();
    if (reading == plan::Activity::kInput) view.show_left(left < 0 ? left : left + 1);
  }
  return to_batch(*element);
}

json WorkerData::Impl::save() {
  json ended = json::array();
  for (const std::string& text :
       cluster_->replica().group().gather_text("end of a pass", ended_ ? "1" : ""))
    ended.push_back(!text.empty());
  return {{"pass", pass_}, {"ended", std::move(ended)}, {"data", input_->save()}};
}

void WorkerData::Impl::restore(const json& state) {
  const auto ended = state.at("ended").get<std::vector<bool>>();
  pass_ = state.at("pass").get<int64_t>();
  open();
  input_->restore(state.at("data"));
  // Rows that Muster divides end for all together, or one batch later for the chief.
  const auto mine = static_cast<size_t>(cluster_->replica().replica_id());
  ended_ = ended.at(input_->by_process() ? mine : 0);
}

std::optional<Batch> WorkerData::next() { return impl_->next(); }
int64_t WorkerData::passes() const { return impl_->passes(); }

}  // namespace muster::inline v0_1
