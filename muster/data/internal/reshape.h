// Stages that take batches apart: unbatch and rebatch. A position is the place before the batch
// under way and the rows taken of it: the batch is read again.
#pragma once

#include <functional>
#include <optional>

#include "muster/data/internal/items.h"

namespace muster::inline v0_1::data::internal {

// The batch under way, and how its place is saved.
class OpenBatch {
 public:
  explicit OpenBatch(std::unique_ptr<Stream<Item>> input) : input_(std::move(input)) {}

  void start(int64_t run);
  // Makes sure that rows are left. False at the end of the input, and with `error` set where a
  // batch could not be read or has no rows to take.
  bool refill(std::exception_ptr* error);
  int64_t left() const { return rows_ - row_; }
  // The next rows, at most left().
  Element take(int64_t rows);
  void pass(int64_t rows) { row_ += rows; }
  void mark(Marks& marks) const;
  Position position(MarkReader& marks) const;
  json identity() const { return input_->identity(); }
  void restore(MarkReader& marks, int64_t run);
  const std::shared_ptr<Element>& batch() const { return batch_; }
  const Ref& tag() const { return tag_; }
  int64_t row() const { return row_; }

 private:
  std::unique_ptr<Stream<Item>> input_;
  std::shared_ptr<Element> batch_;
  Ref tag_;
  int64_t row_ = 0, rows_ = 0;
  Marks before_;  // of the place before batch_
};

class UnbatchStream final : public Stream<Item> {
 public:
  explicit UnbatchStream(std::unique_ptr<Stream<Item>> input) : rows_(std::move(input)) {}

  void start(int64_t run) override { rows_.start(run); }
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override { rows_.mark(marks); }
  Position position(MarkReader& marks) const override { return rows_.position(marks); }
  json identity() const override {
    return {{"kind", "unbatch"}, {"version", 1}, {"input", rows_.identity()}};
  }
  void restore(MarkReader& marks, int64_t run) override { rows_.restore(marks, run); }

 private:
  OpenBatch rows_;
};

// Several replicas get its batches in turn: of each round of so many, every one its own; where the
// last round is not full, batches of zero rows.
class RebatchStream final : public Stream<Item> {
 public:
  using Open = std::function<std::unique_ptr<Stream<Item>>()>;

  // `open` makes the input; it is called again when a batch without rows is to be made and nothing
  // was read that shows its shape.
  RebatchStream(Open open, const Rebatch& spec, const Sharding& sharding)
      : open_(std::move(open)), rows_(open_()), spec_(spec), sharding_(sharding) {}

  void start(int64_t run) override;
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override;
  Position position(MarkReader& marks) const override;
  json identity() const override {
    json state{{"kind", "rebatch"}, {"version", 1}, {"input", rows_.identity()}};
    // Those of a worker follow from its replicas, of which there may be others later.
    if (!spec_.ends_with_rows) state["sizes"] = spec_.sizes;
    return state;
  }
  void restore(MarkReader& marks, int64_t run) override;

 private:
  // The rows of the next batch, added to `parts` unless that is null; false at the end. `error`:
  // that of a batch of the input, which takes the rows before it along: they were to share one.
  bool take_batch(std::vector<Element>* parts, std::exception_ptr* error);
  // The next batch.
  bool produce(Item* out);
  // This replica's of the next round.
  bool deal(Item* out);
  // Passes over so many batches; fewer only at the end.
  int64_t pass_over(int64_t count);
  // A batch without rows; false where there is no batch that shows its shape.
  bool make_empty(Item* out);
  // Of the shape of the input's batches; nothing when there are none.
  std::optional<Element> without_any_rows();

  const Open open_;
  OpenBatch rows_;
  const Rebatch spec_;
  const Sharding sharding_;
  int64_t made_ = 0, run_ = 0;  // batches; saved as rounds where sizes follow from the replicas
  std::optional<Element> empty_;
};

}  // namespace muster::inline v0_1::data::internal
