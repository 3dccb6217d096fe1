#include "muster/data/internal/unique.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/internal/element_codec.h"

namespace muster::inline v0_1::data::internal {

void UniqueStream::start(int64_t run) {
  seen_.clear();
  held_.clear();
  full_ = false;
  taken_ = 0;
  run_ = run;
  input_->start(run);
}

bool UniqueStream::passes(StreamElement& item) {
  if (item.error != nullptr) return true;
  item.settle();
  std::string bytes = encode_values(item.element);
  const uint64_t size = bytes.size() + sizeof(std::string);
  if (!seen_.insert(std::move(bytes)).second) return false;
  if (!held_.add(size)) {
    full_ = true;
    item.error = held_.error();
  }
  return true;
}

bool UniqueStream::next(StreamElement* out) {
  while (!full_ && !shared_.stopping() && input_->read(out, 1) == 1) {
    ++taken_;
    if (passes(*out)) return true;
  }
  return false;
}

int64_t UniqueStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count && next(out + got)) ++got;
  return got;
}

int64_t UniqueStream::skip(int64_t count, std::exception_ptr* lost) {
  StreamElement item;
  int64_t skipped = 0;
  for (; skipped < count && next(&item); ++skipped) note_lost(item.error, lost);
  return skipped;
}

Position UniqueStream::position(IteratorStateReader& saved) const {
  const int64_t examples = saved.next() * examples_per_element();
  saved.next();
  return {0, examples, examples};
}

void UniqueStream::restore(IteratorStateReader& saved, int64_t) {
  const int64_t taken = saved.count();
  start(saved.next());
  StreamElement item;
  for (; taken_ < taken && !shared_.stopping(); ++taken_) {
    if (input_->read(&item, 1) == 0) {
      throw invalid_argument(
          fmt::format("the saved position is element {} of the input of a unique(), which has only "
                      "{}",
                      taken, taken_));
    }
    passes(item);
  }
}

}  // namespace muster::inline v0_1::data::internal
