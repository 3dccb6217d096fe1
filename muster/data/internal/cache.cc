#include "muster/data/internal/cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "muster/base/error.h"
#include "muster/data/internal/held_elements.h"
#include "muster/data/internal/pass_numbers.h"

namespace muster::inline v0_1::data::internal {
void MemoryCacheStream::start(int64_t run) {
  handed_on_ = 0;
  run_ = run;
  if (complete_) return;
  held_.clear();
  kept_.clear();  // a pass that was left does not count
  filled_by_ = run;
  input_->start(run);
}

void MemoryCacheStream::fill(int64_t wanted) {
  while (!complete_ && static_cast<int64_t>(kept_.size()) < wanted) {
    StreamElement item;
    if (input_->read(&item, 1) == 0) {
      complete_ = true;
      kept_.shrink_to_fit();
    } else {
      if (item.error == nullptr) item.settle();
      const uint64_t bytes = size_in_bytes(item);
      kept_.push_back(std::move(item));
      if (!held_.add(bytes)) {
        kept_.resize(static_cast<size_t>(std::min(handed_on_, static_cast<int64_t>(kept_.size()))));
        become_error(kept_.emplace_back(), held_.error());
        complete_ = true;
      }
    }
  }
}

int64_t MemoryCacheStream::read(StreamElement* out, int64_t count) {
  fill(handed_on_ + count);
  const int64_t got = std::min(count, static_cast<int64_t>(kept_.size()) - handed_on_);
  for (int64_t i = 0; i < got; ++i, ++handed_on_) {
    const StreamElement& kept = kept_[static_cast<size_t>(handed_on_)];
    out[i] = {};
    out[i].from = kept.from;
    // The element belongs to this pass, whichever pass filled the cache: maps after the cache draw
    // new numbers.
    out[i].from.tag.run = number_in_pass(kept.from.tag.run, run_, pass_numbers_);
    out[i].error = kept.error;
    // The code that gets it may write to it.
    if (kept.error == nullptr) out[i].element = copied(kept.element);
  }
  return std::max<int64_t>(0, got);
}

int64_t MemoryCacheStream::skip(int64_t count, std::exception_ptr* lost) {
  fill(count > std::numeric_limits<int64_t>::max() - handed_on_ ? count : handed_on_ + count);
  const int64_t passed = std::min(count, static_cast<int64_t>(kept_.size()) - handed_on_);
  for (int64_t i = 0; i < passed; ++i) {
    note_lost(kept_[static_cast<size_t>(handed_on_ + i)].error, lost);
  }
  handed_on_ += passed;
  return passed;
}

Position MemoryCacheStream::position(IteratorStateReader& saved) const {
  const int64_t examples = saved.next() * examples_per_element();
  saved.next();
  return {0, examples, examples};
}

void MemoryCacheStream::restore(IteratorStateReader& saved, int64_t run) {
  const int64_t handed_on = saved.count(), filled_by = saved.next();
  complete_ = false;
  start(filled_by);
  // A later pass begins when all is kept.
  fill(run == filled_by ? handed_on : std::numeric_limits<int64_t>::max());
  run_ = run;
  if (static_cast<int64_t>(kept_.size()) < handed_on) {
    throw invalid_argument(
        fmt::format("the saved position is element {} of a cache of {}", handed_on, kept_.size()));
  }
  handed_on_ = handed_on;
}

}  // namespace muster::inline v0_1::data::internal
