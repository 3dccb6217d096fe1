#include "muster/train/internal/feed.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {

using distribute::Replica;
using nlohmann::json;

Feed::Feed(const InputFn& input_fn, Replica& replica)
    : Feed(input_fn(replica.input_context()), input_fn.shards_itself(), replica) {}

Feed::Feed(const Dataset& dataset, bool for_this_process, Replica& replica)
    : replica_(replica),
      description_(dataset.describe()),
      input_(replica, dataset, for_this_process) {}

Element Feed::first() {
  start_ = input_.iterator().save();
  start_position_ = input_.iterator().position();
  has_pending_ = input_.iterator().next(&pending_);
  const std::optional<Element> empty = input_.zero_rows(has_pending_ ? &pending_ : nullptr);
  if (!empty) {
    throw invalid_argument(
        "the input function gave no data: " + description_,
        "check the data directory and the transformations; take(0), skip() or a filter may have "
        "removed everything");
  }
  empty_ = *empty;
  return has_pending_ ? pending_ : empty_;
}

bool Feed::next(Element* out) {
  if (has_pending_) {
    *out = std::move(pending_);
    has_pending_ = false;
    return true;
  }
  if (!exhausted_ && input_.iterator().next(out)) return true;
  exhausted_ = true;
  *out = empty_;
  return false;
}

json Feed::save() { return input_.save(has_pending_ ? start_ : input_.iterator().save()); }

void Feed::restore(const json& state) {
  input_.restore(state);
  has_pending_ = false;
}

Position Feed::position() const {
  return has_pending_ ? start_position_ : input_.iterator().position();
}

uint64_t Feed::seed() const { return input_.iterator().save().at("seed").get<uint64_t>(); }

int64_t Feed::batches_left() const {
  if (input_.by_process() && replica_.place().processes > 1) return kUnknown;
  const int64_t left = input_.iterator().remaining();
  return left < 0 ? left : left + (has_pending_ ? 1 : 0);
}

}  // namespace muster::inline v0_1
