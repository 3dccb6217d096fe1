#include "muster/data/internal/reshape.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/internal/batch.h"
#include "muster/tensor/leaf_name.h"

namespace muster::inline v0_1::data::internal {
namespace {

Element concatenate(const std::vector<Element>& parts) {
  std::vector<Value> values;
  for (size_t v = 0; v < parts.front().values().size(); ++v) {
    std::vector<Value> column;
    for (const Element& part : parts) {
      if (!(part.structure() == parts.front().structure())) {
        throw invalid_argument(fmt::format("batches of unequal structure: {} and {}",
                                           parts.front().describe(), part.describe()));
      }
      column.push_back(part.values()[v]);
    }
    try {
      values.push_back(Value::concatenate(column));
    } catch (const Error& error) {
      throw with_leaf_name(error, parts.front().structure(), v);
    }
  }
  return Element::make(parts.front().shared_structure(), std::move(values));
}

}  // namespace

void OpenBatch::start(int64_t run) {
  input_->start(run);
  batch_.reset();
  row_ = rows_ = 0;
}

bool OpenBatch::refill(std::exception_ptr* error) {
  while (left() == 0) {
    before_.clear();
    input_->mark(before_);
    batch_.reset();
    row_ = rows_ = 0;
    Item item;
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
          fmt::format("the rows of {} cannot be told apart", item.element.describe()));
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

void OpenBatch::mark(Marks& marks) const {
  marks.push_back(left() > 0 ? row_ : -1);
  if (left() > 0) {
    marks.insert(marks.end(), before_.begin(), before_.end());
  } else {
    input_->mark(marks);
  }
}

Position OpenBatch::position(MarkReader& marks) const {
  const int64_t row = std::max<int64_t>(0, marks.next());
  Position position = input_->position(marks);
  position.element_in_epoch += row;
  position.elements_total += row;
  return position;
}

void OpenBatch::restore(MarkReader& marks, int64_t run) {
  const int64_t row = marks.next();
  batch_.reset();
  row_ = rows_ = 0;
  input_->restore(marks, run);
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

int64_t UnbatchStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  while (got < count) {
    std::exception_ptr error;
    if (rows_.refill(&error)) {
      const int64_t more = std::min(count - got, rows_.left());
      const int64_t first = rows_.row();
      for (int64_t i = 0; i < more; ++i) {
        Item& item = out[got + i];
        item.error = nullptr;
        item.element = {};
        item.block = rows_.batch();
        item.row = first + i;
        item.from = Ref{rows_.tag().index + item.row, rows_.tag().run};
      }
      rows_.pass(more);
      got += more;
    } else if (error != nullptr) {
      out[got] = {};
      out[got++].error = error;
    } else {
      break;
    }
  }
  return got;
}

int64_t UnbatchStream::skip(int64_t count) {
  int64_t skipped = 0;
  while (skipped < count) {
    std::exception_ptr error;
    if (rows_.refill(&error)) {
      const int64_t more = std::min(count - skipped, rows_.left());
      rows_.pass(more);
      skipped += more;
    } else if (error != nullptr) {
      ++skipped;
    } else {
      break;
    }
  }
  return skipped;
}

void RebatchStream::start(int64_t run) {
  run_ = run;
  made_ = 0;
  rows_.start(run);
}

std::optional<Element> RebatchStream::without_any_rows() {
  if (!empty_ && rows_.batch() != nullptr) empty_ = without_rows(*rows_.batch());
  if (!empty_) {
    OpenBatch fresh(open_());
    fresh.start(run_);
    // The first that can be read, as it would be had this stream come here by itself.
    std::exception_ptr error;
    for (int tried = 0; !fresh.refill(&error) && error != nullptr; ++tried) {
      if (tried == kMostUnreadable) std::rethrow_exception(error);
      error = nullptr;
    }
    if (fresh.left() > 0) empty_ = without_rows(*fresh.batch());
  }
  return empty_;
}

bool RebatchStream::take_batch(std::vector<Element>* parts, std::exception_ptr* error) {
  const int64_t size = spec_.sizes[static_cast<size_t>(made_) % spec_.sizes.size()];
  if (size == 0 && spec_.ends_with_rows && !rows_.refill(error) && *error == nullptr) return false;
  int64_t have = 0;
  while (have < size && rows_.refill(error)) {
    const int64_t more = std::min(size - have, rows_.left());
    if (parts != nullptr) {
      parts->push_back(rows_.take(more));
    } else {
      rows_.pass(more);
    }
    have += more;
  }
  if (*error == nullptr && size > 0 && (have == 0 || (have < size && spec_.drop_remainder))) {
    return false;
  }
  ++made_;
  return true;
}

bool RebatchStream::make_empty(Item* out) {
  try {
    const std::optional<Element> empty = without_any_rows();
    if (!empty) return false;
    out->element = *empty;
  } catch (...) {
    out->error = current_failure("rebatch");
  }
  return true;
}

bool RebatchStream::produce(Item* out) {
  *out = {};
  out->from = Ref{made_, run_};
  std::vector<Element> parts;
  if (!take_batch(&parts, &out->error)) return false;
  if (out->error != nullptr) return true;
  if (parts.empty()) return make_empty(out);
  try {
    out->element = parts.size() == 1 ? std::move(parts.front()) : concatenate(parts);
  } catch (...) {
    out->error = current_failure("rebatch");
  }
  return true;
}

int64_t RebatchStream::pass_over(int64_t count) {
  int64_t passed = 0;
  std::exception_ptr error;  // takes its place
  for (; passed < count && take_batch(nullptr, &error); ++passed) error = nullptr;
  return passed;
}

bool RebatchStream::deal(Item* out) {
  const int64_t n = sharding_.num_replicas, r = sharding_.replica;
  const int64_t before = pass_over(r);
  if (before == r && produce(out)) {
    pass_over(n - 1 - r);
    return true;
  }
  if (before == 0) return false;
  *out = {};
  out->from = Ref{made_, run_};
  return make_empty(out);
}

int64_t RebatchStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  while (got < count && deal(out + got)) ++got;
  return got;
}

int64_t RebatchStream::skip(int64_t count) {
  int64_t skipped = 0;
  while (skipped < count && pass_over(sharding_.num_replicas) > 0) ++skipped;
  return skipped;
}

void RebatchStream::mark(Marks& marks) const {
  const int64_t n = sharding_.num_replicas;
  marks.insert(marks.end(), {spec_.ends_with_rows ? (made_ + n - 1) / n : made_, run_});
  rows_.mark(marks);
}

Position RebatchStream::position(MarkReader& marks) const {
  marks.next();
  marks.next();
  return rows_.position(marks);
}

void RebatchStream::restore(MarkReader& marks, int64_t) {
  made_ = marks.count() * (spec_.ends_with_rows ? sharding_.num_replicas : 1);
  run_ = marks.next();
  rows_.restore(marks, run_);
}

}  // namespace muster::inline v0_1::data::internal
