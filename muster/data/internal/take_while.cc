#include "muster/data/internal/take_while.h"

#include "muster/data/internal/call_failure.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

void TakeWhileStream::start(int64_t run) {
  ended_ = false;
  PassingStream::start(run);
}

bool TakeWhileStream::next(StreamElement* out) {
  if (ended_ || input().read(out, 1) == 0) return false;
  if (out->error != nullptr) return true;
  try {
    out->settle();
    const torch::NoGradGuard no_grad;
    ended_ = !std::get<TakeWhile>(node_->spec).fn(out->element);
  } catch (...) {
    out->error = call_failure(*node_, out->from, out->element);
  }
  return !ended_;
}

int64_t TakeWhileStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count && next(out + got)) ++got;
  return got;
}

int64_t TakeWhileStream::skip(int64_t count, std::exception_ptr* lost) {
  StreamElement item;
  int64_t skipped = 0;
  for (; skipped < count && next(&item); ++skipped) note_lost(item.error, lost);
  return skipped;
}

void TakeWhileStream::save(IteratorState& saved) const {
  saved.push_back(ended_);
  PassingStream::save(saved);
}

Position TakeWhileStream::position(IteratorStateReader& saved) const {
  saved.next();
  return PassingStream::position(saved);
}

void TakeWhileStream::restore(IteratorStateReader& saved, int64_t run) {
  ended_ = saved.count() != 0;
  PassingStream::restore(saved, run);
}

}  // namespace muster::inline v0_1::data::internal
