// Stages that choose or number elements: filter, ignore_errors, enumerate, assert_cardinality.
#pragma once

#include "muster/data/internal/items.h"

namespace muster::inline v0_1::data::internal {

// Hands on some of its input's elements.
class SelectingStream : public PassingStream {
 public:
  SelectingStream(std::unique_ptr<Stream<Item>> input, const Run& run)
      : PassingStream(std::move(input)), run_(run) {}
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  json identity() const override {
    return {{"kind", kind()}, {"version", 1}, {"input", PassingStream::identity()}};
  }

 protected:
  virtual const char* kind() const = 0;
  // Whether the item is one of them. May put an error into it, which is handed on.
  virtual bool passes(Item& item) = 0;

 private:
  const Run& run_;
};

class FilterStream final : public SelectingStream {
 public:
  FilterStream(std::unique_ptr<Stream<Item>> input, NodePtr node, const Run& run)
      : SelectingStream(std::move(input), run), node_(std::move(node)) {}

 private:
  const char* kind() const override { return "filter"; }
  // A predicate that throws leaves its error in the item.
  bool passes(Item& item) override;

  const NodePtr node_;
};

class IgnoreErrorsStream final : public SelectingStream {
 public:
  IgnoreErrorsStream(std::unique_ptr<Stream<Item>> input, bool log_warning, const Run& run)
      : SelectingStream(std::move(input), run), log_warning_(log_warning) {}
  // Where a position can be saved, none is being counted: what came before must not count either.
  void start(int64_t run) override {
    in_a_row_ = 0;
    SelectingStream::start(run);
  }
  void restore(MarkReader& marks, int64_t run) override {
    in_a_row_ = 0;
    SelectingStream::restore(marks, run);
  }

 private:
  const char* kind() const override { return "ignore_errors"; }
  bool passes(Item& item) override;

  // So many, and there is hardly anything else: the search for an element ends with an error, and
  // goes on when asked again.
  static constexpr int64_t kMostInARow = 100000;

  const bool log_warning_;
  int64_t ignored_ = 0, in_a_row_ = 0;
};

// Counts what it hands on; a stage that needs the count in its saved position.
class CountingStream : public Stream<Item> {
 public:
  explicit CountingStream(std::unique_ptr<Stream<Item>> input) : input_(std::move(input)) {}

  void start(int64_t run) override {
    count_ = 0;
    input_->start(run);
  }
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void mark(Marks& marks) const override {
    marks.push_back(count_);
    input_->mark(marks);
  }
  Position position(MarkReader& marks) const override {
    marks.next();
    return input_->position(marks);
  }
  json identity() const override {
    return {{"kind", kind()}, {"version", 1}, {"input", input_->identity()}};
  }
  void restore(MarkReader& marks, int64_t run) override {
    count_ = marks.count();
    input_->restore(marks, run);
  }

 protected:
  virtual const char* kind() const = 0;
  Stream<Item>& input() const { return *input_; }
  int64_t count_ = 0;

 private:
  std::unique_ptr<Stream<Item>> input_;
};

class EnumerateStream final : public CountingStream {
 public:
  EnumerateStream(std::unique_ptr<Stream<Item>> input, int64_t start)
      : CountingStream(std::move(input)), start_(start) {}
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;

 private:
  const char* kind() const override { return "enumerate"; }
  const int64_t start_;
};

class AssertCardinalityStream final : public CountingStream {
 public:
  AssertCardinalityStream(std::unique_ptr<Stream<Item>> input, int64_t expected)
      : CountingStream(std::move(input)), expected_(expected) {}
  void start(int64_t run) override {
    told_ = false;
    CountingStream::start(run);
  }
  void mark(Marks& marks) const override {
    marks.push_back(told_);
    CountingStream::mark(marks);
  }
  Position position(MarkReader& marks) const override {
    marks.next();
    return CountingStream::position(marks);
  }
  void restore(MarkReader& marks, int64_t run) override {
    told_ = marks.count() != 0;
    CountingStream::restore(marks, run);
  }
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;

 private:
  const char* kind() const override { return "assert_cardinality"; }
  // Up to `count` elements: `take(from, n)` takes n of the input; `fail(at, ended)` puts the error
  // in place of element `at`, or, where the input ended, behind the last.
  template <typename Take, typename Fail>
  int64_t pass(int64_t count, Take take, Fail fail);
  const int64_t expected_;
  bool told_ = false;
};

}  // namespace muster::inline v0_1::data::internal
