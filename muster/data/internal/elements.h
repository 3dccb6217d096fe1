// The streams that carry values: reading what a Ref names, map, batch, prefetch.
// A failing map or batch does not throw: the error travels in the Item, so that it reaches the user
// at its place in the order, through shuffles and threads, and every saved position stays a plain
// count.
#pragma once

#include <exception>
#include <optional>
#include <thread>

#include "muster/base/queue.h"
#include "muster/data/internal/node.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

struct Item {
  Element element;
  Ref tag;  // what keyed maps derive their keys from; of a batch: the position of its first row,
            // and its pass
  std::exception_ptr error;
};

// The exception being handled, as an Error to put into an Item.
std::exception_ptr current_failure();

std::unique_ptr<Stream<Item>> open_items(const std::shared_ptr<const Node>& node, const Run& run);

// One map() of the pipeline.
struct MapStage {
  std::shared_ptr<const Node> node;

  // Throws Error naming the map, the pipeline and the element.
  Element operator()(const Element& element, const Ref& tag, const Run& run) const;
};

// Reads the elements that Refs name, through the maps between the source and the first batch.
class Reader {
 public:
  Reader(std::shared_ptr<const Node> node, const Run& run);

  Element read(const Ref& ref) const;
  // The rows of `batch`. Throws InvalidArgument when what the maps make of the first says that they
  // do not fit into memory.
  Element gather(std::span<const Ref> refs, const Node& batch);
  // Whether gather() of nothing gives zero rows: maps need an element to run on.
  bool knows_empty() const { return maps_.empty(); }
  // What one element takes; 0 without elements, and behind maps, which may make anything of it.
  uint64_t element_bytes() const;

 private:
  const Run& run_;
  std::shared_ptr<const Source> source_;
  std::vector<MapStage> maps_;
  std::vector<int64_t> indices_;
};

// The elements of an addressable chain, one by one.
class ReadStream final : public Stream<Item> {
 public:
  ReadStream(std::unique_ptr<Stream<Ref>> refs, Reader reader)
      : refs_(std::move(refs)), reader_(std::move(reader)) {}

  void start(int64_t run) override { refs_->start(run); }
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override { return refs_->skip(count); }
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override { refs_->mark(marks); }
  Position position(MarkReader& marks) const override { return refs_->position(marks); }
  json identity() const override { return refs_->identity(); }
  json save(MarkReader& marks) const override { return refs_->save(marks); }
  void restore(const json& state, int64_t run) override { refs_->restore(state, run); }

 private:
  std::unique_ptr<Stream<Ref>> refs_;
  Reader reader_;
};

// A map behind a batch. It leaves no trace in saved positions.
class MapStream final : public Stream<Item> {
 public:
  MapStream(std::unique_ptr<Stream<Item>> input, MapStage stage, const Run& run)
      : input_(std::move(input)), stage_(std::move(stage)), run_(run) {}

  void start(int64_t run) override { input_->start(run); }
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override { return input_->skip(count); }
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void mark(Marks& marks) const override { input_->mark(marks); }
  Position position(MarkReader& marks) const override { return input_->position(marks); }
  json identity() const override { return input_->identity(); }
  json save(MarkReader& marks) const override { return input_->save(marks); }
  void restore(const json& state, int64_t run) override { input_->restore(state, run); }

 private:
  std::unique_ptr<Stream<Item>> input_;
  MapStage stage_;
  const Run& run_;
};

// Reads ahead on a thread. Every element carries the position behind it, so what is saved is what
// was handed out. It leaves no trace in saved positions either.
class PrefetchStream final : public Stream<Item> {
 public:
  PrefetchStream(std::unique_ptr<Stream<Item>> input, int64_t count)
      : input_(std::move(input)), count_(count) {}
  ~PrefetchStream() override { stop(); }

  void start(int64_t run) override;
  int64_t read(Item* out, int64_t count) override;
  int64_t skip(int64_t count) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void mark(Marks& marks) const override {
    marks.insert(marks.end(), position_.begin(), position_.end());
  }
  Position position(MarkReader& marks) const override { return input_->position(marks); }
  json identity() const override { return input_->identity(); }
  json save(MarkReader& marks) const override { return input_->save(marks); }
  void restore(const json& state, int64_t run) override;

 private:
  struct Entry {
    Item item;
    Marks position;
  };

  void stop();
  void produce();

  std::unique_ptr<Stream<Item>> input_;
  const int64_t count_;
  Marks position_;  // behind the last element handed out
  bool ended_ = false;
  std::unique_ptr<BlockingQueue<Entry>> queue_;  // closed by the thread at the end of the input
  std::thread thread_;
};

}  // namespace muster::inline v0_1::data::internal
