#include "muster/data/internal/open_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"

namespace muster::inline v0_1::data::internal {

void OpenBatch::start(int64_t run) {
  input_->start(run);
  batch_.reset();
  row_ = rows_ = 0;
}

bool OpenBatch::refill(std::exception_ptr* error) {
  while (left() == 0) {
    before_.clear();
    input_->save(before_);
    batch_.reset();
    row_ = rows_ = 0;
    StreamElement item;
    if (input_->read(&item, 1) == 0) return false;
    if (item.error != nullptr) {
      *error = item.error;
      return false;
    }
    try {
      item.settle();
      rows_ = item.element.rows();
    } catch (...) {
      *error = current_failure(
          fmt::format("the rows of {} cannot be distinguished", item.element.describe()));
      return false;
    }
    batch_ = std::make_shared<Element>(std::move(item.element));
    tag_ = item.from.tag;
  }
  return true;
}

Element OpenBatch::take(int64_t rows) {
  row_ += rows;
  return unversioned(batch_->slice(row_ - rows, row_));
}

void OpenBatch::save(IteratorState& saved) const {
  saved.push_back(left() > 0 ? row_ : -1);
  if (left() > 0) {
    saved.insert(saved.end(), before_.begin(), before_.end());
  } else {
    input_->save(saved);
  }
}

Position OpenBatch::position(IteratorStateReader& saved) const {
  const int64_t row = std::max<int64_t>(0, saved.next());
  Position position = input_->position(saved);
  position.element_in_epoch += row;
  position.elements_total += row;
  return position;
}

void OpenBatch::restore(IteratorStateReader& saved, int64_t run) {
  const int64_t row = saved.next();
  batch_.reset();
  row_ = rows_ = 0;
  input_->restore(saved, run);
  if (row < 0) return;
  std::exception_ptr error;
  const bool has = refill(&error);
  if (error != nullptr) std::rethrow_exception(error);
  if (!has || row >= rows_) {
    throw invalid_argument(fmt::format(
        "the saved position is row {} of a batch, which has {} rows now", row, has ? rows_ : 0));
  }
  row_ = row;
}

}  // namespace muster::inline v0_1::data::internal
