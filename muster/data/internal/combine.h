// Stages with several inputs: zip, concatenate, and interleave, whose inputs are data sets that a
// function makes of elements.
#pragma once

#include "muster/data/internal/items.h"

namespace muster::inline v0_1::data::internal {

// An input of a stage with several, which draws numbers of its own.
struct Branch {
  // `made_by`: the stage that makes the node while it runs; empty for an input of the description.
  Branch(NodePtr node, const Run& outer, RandomKey key, std::string made_by = "")
      : node(std::move(node)),
        run(outer, key, std::move(made_by)),
        stream(open_items(this->node, run)) {}
  const NodePtr node;  // stream reads it
  Run run;             // and this
  std::unique_ptr<Stream<Item>> stream;
};

class ZipStream final : public Stream<Item> {
 public:
  ZipStream(NodePtr node, const Run& run);

  void start(int64_t run) override;
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override;
  Position position(MarkReader& marks) const override;
  json identity() const override;
  void restore(MarkReader& marks, int64_t run) override;

 private:
  const NodePtr node_;
  std::vector<std::unique_ptr<Branch>> branches_;
  Passage first_;  // from the first input, which gives the tags
  bool ended_ = false;
};

class ConcatenateStream final : public Stream<Item> {
 public:
  ConcatenateStream(const NodePtr& node, const Run& run);

  void start(int64_t run) override;
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override;
  Position position(MarkReader& marks) const override;
  json identity() const override;
  void restore(MarkReader& marks, int64_t run) override;

 private:
  bool next_branch();

  std::vector<std::unique_ptr<Branch>> branches_;
  std::vector<Passage> passages_;  // by branch
  size_t at_ = 0;
  int64_t emitted_ = 0, run_ = 0;
};

class InterleaveStream final : public Stream<Item> {
 public:
  InterleaveStream(NodePtr node, const Run& run);

  void start(int64_t run) override;
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override;
  Position position(MarkReader& marks) const override;
  json identity() const override;
  void restore(MarkReader& marks, int64_t run) override;

 private:
  // A data set being read, and which element of the input it was made of.
  struct Slot {
    std::unique_ptr<Branch> branch;
    int64_t argument = -1;
    Ref tag;  // of that element
    Passage passage;
  };
  const Interleave& spec() const { return std::get<Interleave>(node_->spec); }
  // The next element, into `out`; false at the end.
  bool produce(Item* out);
  // Goes on to the next slot.
  void advance();
  // Takes an element of the input and opens what the function makes of it. An error is left in
  // `out`.
  void fill(Slot& slot, Item* out);
  // Throws what the function throws, and what opening does.
  void open(Slot& slot, Item& argument, int64_t number);
  // `item` came from the slot.
  void hand_on(Slot& slot, Item& item) const;

  const NodePtr node_;
  const Run& shared_;
  std::unique_ptr<Stream<Item>> input_;
  std::vector<Slot> slots_;
  size_t at_ = 0;          // the slot whose turn it is
  int64_t in_block_ = 0;   // elements handed on of its turn
  int64_t arguments_ = 0;  // elements of the input that were taken
  int64_t open_ = 0;       // slots
  bool input_ended_ = false;
  int64_t emitted_ = 0, run_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
