#include "muster/data/internal/rebatch.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/data/internal/zero_rows.h"
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

bool RebatchStream::make_empty(StreamElement* out) {
  try {
    const std::optional<Element> empty = without_any_rows();
    if (!empty) return false;
    out->element = *empty;
  } catch (...) {
    out->error = current_failure("rebatch");
  }
  return true;
}

bool RebatchStream::produce(StreamElement* out) {
  *out = {};
  out->from = SourceIndex{made_, run_};
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

int64_t RebatchStream::pass_over(int64_t count, std::exception_ptr* lost) {
  int64_t passed = 0;
  std::exception_ptr error;  // takes its place
  for (; passed < count && take_batch(nullptr, &error); ++passed) {
    note_lost(error, lost);
    error = nullptr;
  }
  return passed;
}

bool RebatchStream::read_round(StreamElement* out) {
  const int64_t n = sharding_.num_replicas, r = sharding_.replica;
  std::exception_ptr lost;  // among the batches of other replicas
  const int64_t before = pass_over(r, &lost);
  const bool has = before == r && produce(out);
  if (has) pass_over(n - 1 - r, &lost);
  if (lost != nullptr) {
    become_error(*out, lost);
    return true;
  }
  if (has || before == 0) return has;
  *out = {};
  out->from = SourceIndex{made_, run_};
  return make_empty(out);
}

int64_t RebatchStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count && read_round(out + got)) ++got;
  return got;
}

int64_t RebatchStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t skipped = 0;
  while (skipped < count && pass_over(sharding_.num_replicas, lost) > 0) ++skipped;
  return skipped;
}

void RebatchStream::save(IteratorState& saved) const {
  const int64_t n = sharding_.num_replicas;
  saved.insert(saved.end(), {spec_.ends_with_rows ? (made_ + n - 1) / n : made_, run_});
  rows_.save(saved);
}

Position RebatchStream::position(IteratorStateReader& saved) const {
  saved.next();
  saved.next();
  return rows_.position(saved);
}

void RebatchStream::restore(IteratorStateReader& saved, int64_t) {
  made_ = saved.count() * (spec_.ends_with_rows ? sharding_.num_replicas : 1);
  run_ = saved.next();
  rows_.restore(saved, run_);
}

}  // namespace muster::inline v0_1::data::internal
