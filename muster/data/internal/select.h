// Stages that choose or number elements: filter, ignore_errors, enumerate, assert_cardinality.
#pragma once

#include "muster/data/internal/items.h"

namespace muster::inline v0_1::data::internal {

class FilterStream final : public PassingStream {
 public:
  FilterStream(std::unique_ptr<Stream<Item>> input, NodePtr node, const Run& run)
      : PassingStream(std::move(input)), node_(std::move(node)), run_(run) {}
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;

 private:
  // Whether the item is handed on. A predicate that throws leaves its error in it, and it is.
  bool passes(Item& item) const;

  const NodePtr node_;
  const Run& run_;
};

class IgnoreErrorsStream final : public PassingStream {
 public:
  IgnoreErrorsStream(std::unique_ptr<Stream<Item>> input, bool log_warning, const Run& run)
      : PassingStream(std::move(input)), log_warning_(log_warning), run_(run) {}
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;

 private:
  bool passes(const Item& item);

  const bool log_warning_;
  const Run& run_;
  int64_t ignored_ = 0;
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
  void restore(MarkReader& marks, int64_t run) override {
    told_ = false;
    CountingStream::restore(marks, run);
  }
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;

 private:
  const char* kind() const override { return "assert_cardinality"; }
  const int64_t expected_;
  bool told_ = false;
};

}  // namespace muster::inline v0_1::data::internal
