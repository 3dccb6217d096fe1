#include "muster/data/internal/split_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::inline v0_1::data::internal {

void SplitBatchStream::start(int64_t run) {
  input_->start(run);
  batch_ = {};
  next_ = made_ = 0;
  run_ = run;
}

bool SplitBatchStream::refill() {
  if (next_ > 0) return true;
  before_.clear();
  input_->save(before_);
  batch_ = {};
  if (input_->read(&batch_, 1) == 0) return false;
  if (batch_.error != nullptr) return true;
  try {
    batch_.settle();
    rows_ = batch_.element.rows();
  } catch (...) {
    batch_.error = current_failure(
        fmt::format("the rows of {} cannot be distinguished", batch_.element.describe()));
  }
  return true;
}

int64_t SplitBatchStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  for (; got < count && refill(); ++got) {
    StreamElement& piece = out[got];
    piece = {};
    piece.from = SourceIndex{made_++, run_};
    if (batch_.error != nullptr) {
      piece.error = batch_.error;
    } else {
      const int64_t size = (rows_ + pieces_ - 1) / pieces_;
      const int64_t begin = std::min(rows_, next_ * size);
      piece.element = unversioned(batch_.element.slice(begin, std::min(rows_, begin + size)));
    }
    next_ = (next_ + 1) % pieces_;
  }
  return got;
}

int64_t SplitBatchStream::skip(int64_t count, std::exception_ptr* lost) {
  StreamElement piece;
  int64_t skipped = 0;
  for (; skipped < count && read(&piece, 1) == 1; ++skipped) note_lost(piece.error, lost);
  return skipped;
}

void SplitBatchStream::save(IteratorState& saved) const {
  saved.insert(saved.end(), {made_, run_, next_});
  if (next_ > 0) {
    saved.insert(saved.end(), before_.begin(), before_.end());
  } else {
    input_->save(saved);
  }
}

Position SplitBatchStream::position(IteratorStateReader& saved) const {
  for (int count = 0; count < 3; ++count) saved.next();
  return input_->position(saved);
}

void SplitBatchStream::restore(IteratorStateReader& saved, int64_t) {
  const int64_t made = saved.count(), run = saved.next(), next = saved.count();
  start(run);
  input_->restore(saved, run);
  if (next >= pieces_ || (next > 0 && !refill())) {
    throw invalid_argument(fmt::format(
        "the saved position is piece {} of {} of a batch that no longer exists", next, pieces_));
  }
  next_ = next;
  made_ = made;
}

}  // namespace muster::inline v0_1::data::internal
