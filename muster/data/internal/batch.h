// batch(): the one place where elements become rows, and where rows are divided between replicas.
// Thread safety: as Stream.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/internal/batch_checks.h"
#include "muster/data/internal/collator.h"
#include "muster/data/internal/stream.h"
#include "muster/data/internal/zero_rows.h"

namespace muster::inline v0_1::data::internal {

template <typename T>
class BatchStream final : public Stream<StreamElement> {
 public:
  using Open = std::function<std::unique_ptr<Stream<T>>()>;

  // `open` makes the input; it is called again when a replica needs the shape of an element and has
  // none.
  BatchStream(Open open, Collator<T> collator, const Node& node, const Sharding& sharding)
      : open_(std::move(open)),
        input_(open_()),
        collator_(std::move(collator)),
        drop_remainder_(std::get<Batch>(node.spec).drop_remainder),
        sharded_(sharding.num_replicas > 1) {
    const Batch& batch = std::get<Batch>(node.spec);
    const int64_t n = sharding.num_replicas, r = sharding.replica;
    if (sharding.divides(batch.global)) {
      const int64_t share = batch.size / n, larger = batch.size % n;
      round_ = batch.size;
      begin_ = r * share + std::min(r, larger);
      size_ = share + (r < larger ? 1 : 0);
    } else {
      round_ = batch.size * n;
      begin_ = batch.size * r;
      size_ = batch.size;
    }
    // At most one more than the existing elements: batch(1 << 30) of a small data set is one small
    // batch, and the input notices its end.
    const int64_t there_are = node.input()->cardinality;
    const int64_t most = there_are < 0 || there_are >= size_ ? size_ : there_are + 1;
    check_fits(node, most, [this] { return collator_.row_bytes(); });
    pulled_.resize(static_cast<size_t>(most));
  }

  void start(int64_t run) override {
    run_ = run;
    consumed_ = 0;
    over_ = false;
    input_->start(run);
  }
  int64_t read(StreamElement* out, int64_t count) override {
    int64_t got = 0;
    while (got < count && produce(out + got)) ++got;
    return got;
  }
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    int64_t got = 0;
    for (; got < count && !over_; ++got) {
      remember();
      std::exception_ptr here;
      const int64_t passed = input_->skip(round_, &here);
      if (ends(passed, here)) break;
      consumed_ += passed;
      note_lost(here, lost);
    }
    return got;
  }
  int64_t examples_per_element() const override { return round_ * input_->examples_per_element(); }
  void save(IteratorState& saved) const override {
    if (over_) {
      saved.insert(saved.end(), before_remainder_.begin(), before_remainder_.end());
      return;
    }
    saved.push_back(consumed_);
    input_->save(saved);
  }
  Position position(IteratorStateReader& saved) const override {
    saved.next();
    return input_->position(saved);
  }
  json identity() const override {
    json state = own_identity();
    state["input"] = input_->identity();
    return state;
  }
  void restore(IteratorStateReader& saved, int64_t run) override {
    run_ = run;
    consumed_ = saved.count();
    over_ = false;
    input_->restore(saved, run);
  }

 private:
  // Sizes are left out: a position is a count of examples, and any batch size continues from it.
  static json own_identity() { return {{"kind", "batch"}, {"version", 1}}; }

  // A remainder that is dropped was not handed out: a run with more epochs continues before it.
  void remember() {
    if (!drop_remainder_) return;
    before_remainder_.clear();
    save(before_remainder_);
  }
  // A batch with lost elements is not dropped as a remainder.
  bool ends(int64_t pulled, const std::exception_ptr& lost) {
    if (pulled == round_ || (pulled > 0 && (!drop_remainder_ || lost != nullptr))) return false;
    over_ = pulled > 0;
    return true;
  }

  bool produce(StreamElement* out) {
    if (over_) return false;
    remember();
    // The whole round is consumed before rows are read: an error in a row leaves all replicas at
    // the same place.
    std::exception_ptr lost;  // among the rows of all replicas
    int64_t total = begin_ == 0 ? 0 : input_->skip(begin_, &lost);
    int64_t mine = 0;
    if (total == begin_) {
      const auto most = static_cast<int64_t>(pulled_.size());
      mine = most == 0 ? 0 : input_->read(pulled_.data(), most);
      total += mine;
      if (mine == size_ && total < round_) total += input_->skip(round_ - total, &lost);
    }
    for (int64_t i = 0; i < mine; ++i) {
      note_lost(error_of(pulled_[static_cast<size_t>(i)]), &lost);
    }
    if (ends(total, lost)) return false;
    out->from = SourceIndex{consumed_ + begin_, run_};
    out->error = nullptr;
    out->block.reset();
    try {
      if (lost != nullptr) std::rethrow_exception(lost);
      out->element = mine > 0 ? collect(mine) : empty();
    } catch (...) {
      out->error = current_failure();
    }
    consumed_ += total;
    return true;
  }

  Element collect(int64_t rows) {
    Element batch = collator_.join(std::span<T>(pulled_.data(), static_cast<size_t>(rows)));
    if (sharded_ && !empty_) empty_ = without_rows(batch);
    return batch;
  }

  Element empty() {
    if (!empty_ && collator_.knows_empty()) empty_ = collator_.join({});
    if (!empty_) {
      const std::unique_ptr<Stream<T>> fresh = open_();
      fresh->start(run_);
      T one;
      std::optional<Error> unreadable;  // why the first was not
      // The first that can be read shows the shapes.
      for (int tried = 0; !empty_; ++tried) {
        if (fresh->read(&one, 1) == 0) {
          // For example, all of the data is a missing file: the replica that was to read it reports
          // the same.
          if (unreadable) throw Error(*unreadable);
          throw internal_error("a batch without rows needs an element to take its shapes from");
        }
        try {
          empty_ = without_rows(collator_.join(std::span<T>(&one, 1)));
        } catch (const Error& error) {
          // Also if the iterator is destroyed.
          if (tried == kMostUnreadable || error.kind() == ErrorKind::kCancelled) throw;
          if (!unreadable) unreadable = error;
        }
      }
    }
    return *empty_;
  }

  const Open open_;
  std::unique_ptr<Stream<T>> input_;
  Collator<T> collator_;
  const bool drop_remainder_, sharded_;
  int64_t round_ = 0;             // elements of a round, over all replicas
  int64_t begin_ = 0, size_ = 0;  // this replica's part of it
  std::vector<T> pulled_;
  std::optional<Element> empty_;
  int64_t run_ = 0, consumed_ = 0;
  bool over_ = false;               // a remainder was pulled and dropped
  IteratorState before_remainder_;  // of the place before the round under way
};

}  // namespace muster::inline v0_1::data::internal
