#include "muster/train/internal/feed.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/element_spec.h"

namespace muster::inline v0_1 {

using distribute::Session;
using nlohmann::json;

Feed::Feed(const InputFn& input_fn, Session& session) : session_(session) {
  const Dataset dataset = input_fn(session.input_context());
  per_worker_ = input_fn.shards_itself() || dataset.hand_sharded();
  description_ = dataset.describe();
  iterator_ =
      input_fn.shards_itself() ? session.distribute_locally(dataset) : session.distribute(dataset);
}

Element Feed::first() {
  start_ = iterator_->save();
  start_position_ = iterator_->position();
  has_pending_ = iterator_->next(&pending_);
  if (has_pending_) (void)to_batch(pending_);  // refuses what is no batch
  std::string spec = has_pending_ ? encode_batch_spec(pending_) : "";
  // Only a pipeline that shards itself can leave a replica without any data; the others get zero
  // rows by themselves.
  if (per_worker_) {
    for (const std::string& other : session_.gather_text("batch_spec", spec)) {
      if (spec.empty()) spec = other;
    }
  }
  if (spec.empty()) {
    throw invalid_argument(
        "the input function gave no data: " + description_,
        "check the data directory and the transformations; take(0), skip() or a filter may have "
        "removed everything");
  }
  empty_ = zero_rows(spec);
  return has_pending_ ? pending_ : empty_;
}

bool Feed::next(Element* out) {
  if (has_pending_) {
    *out = std::move(pending_);
    has_pending_ = false;
    return true;
  }
  if (!exhausted_ && iterator_->next(out)) return true;
  exhausted_ = true;
  *out = empty_;
  return false;
}

json Feed::save() {
  const json position = has_pending_ ? start_ : iterator_->save();
  if (!per_worker_) return {{"dealt_by", "muster"}, {"position", position}};
  // One for each worker: its replicas have the same.
  json positions = json::array();
  const std::string mine = session_.local_replica() == 0 ? position.dump() : "";
  for (const std::string& text : session_.gather_text("input_position", mine)) {
    if (!text.empty()) positions.push_back(json::parse(text));
  }
  return {{"dealt_by", "input_fn"}, {"positions", std::move(positions)}};
}

void Feed::restore(const json& state) {
  const bool was_per_worker = state.value("dealt_by", "muster") == "input_fn";
  if (was_per_worker != per_worker_) {
    throw invalid_argument(
        fmt::format("the checkpoint was written with an input function that {}, this one {}",
                    was_per_worker ? "shards itself" : "Muster sharded",
                    per_worker_ ? "shards itself" : "is sharded by Muster"),
        "use the kind of input function the run was started with, or a new model_dir");
  } else if (!per_worker_) {
    iterator_->restore(state.at("position"));
  } else if (const InputContext context = session_.input_context();
             state.at("positions").size() == static_cast<size_t>(context.num_input_pipelines)) {
    iterator_->restore(state.at("positions").at(static_cast<size_t>(context.input_pipeline_id)));
  } else {
    throw invalid_argument(
        fmt::format("the checkpoint holds the positions of {} input pipelines that shard "
                    "themselves, and this run has "
                    "{} workers: which examples are still unread cannot be told",
                    state.at("positions").size(), session_.input_context().num_input_pipelines),
        "continue on the same number of workers, or let Muster shard: an input function without "
        "InputContext continues on any number");
  }
  has_pending_ = false;
}

Position Feed::position() const { return has_pending_ ? start_position_ : iterator_->position(); }

uint64_t Feed::seed() const { return iterator_->save().at("seed").get<uint64_t>(); }

int64_t Feed::steps_left() const {
  if (per_worker_ && session_.input_context().num_input_pipelines > 1) return kUnknown;
  const int64_t left = iterator_->remaining();
  return left < 0 ? left : left + (has_pending_ ? 1 : 0);
}

}  // namespace muster::inline v0_1
