#include "muster/train/internal/feed.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/distribute/input_position.h"
#include "muster/tensor/element_spec.h"

namespace muster::inline v0_1 {

using distribute::Session;
using nlohmann::json;

Feed::Feed(const InputFn& input_fn, Session& session) : session_(session) {
  const Dataset dataset = input_fn(session.input_context());
  description_ = dataset.describe();
  distribute::ReplicaInput input =
      input_fn.shards_itself() ? distribute::ReplicaInput{session.distribute_locally(dataset), true}
                               : session.distribute(dataset);
  iterator_ = std::move(input.iterator);
  per_worker_ = input.by_process;
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
  return distribute::save_position(session_, position, per_worker_);
}

void Feed::restore(const json& state) {
  distribute::restore_position(session_, *iterator_, state, per_worker_);
  has_pending_ = false;
}

Position Feed::position() const { return has_pending_ ? start_position_ : iterator_->position(); }

uint64_t Feed::seed() const { return iterator_->save().at("seed").get<uint64_t>(); }

int64_t Feed::batches_left() const {
  if (per_worker_ && session_.input_context().num_input_pipelines > 1) return kUnknown;
  const int64_t left = iterator_->remaining();
  return left < 0 ? left : left + (has_pending_ ? 1 : 0);
}

}  // namespace muster::inline v0_1
