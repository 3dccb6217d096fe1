// rebatch(): the rows of batches in batches of other sizes. Thread safety: as Stream.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "muster/data/internal/node.h"
#include "muster/data/internal/open_batch.h"

namespace muster::inline v0_1::data::internal {

// With several replicas, a round is one batch for each of them, in the order of their ranks. Where
// the last round is not full, the other replicas get batches of zero rows.
class RebatchStream final : public Stream<StreamElement> {
 public:
  using Open = std::function<std::unique_ptr<Stream<StreamElement>>()>;

  // `open` makes the input; it is called again when a batch without rows is to be made and nothing
  // was read that shows its shape.
  RebatchStream(Open open, const Rebatch& spec, const Sharding& sharding)
      : open_(std::move(open)), rows_(open_()), spec_(spec), sharding_(sharding) {}

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override {
    json state{{"kind", "rebatch"}, {"version", 1}, {"input", rows_.identity()}};
    // The sizes of a worker follow from its replicas, and a later run may have other replicas.
    if (!spec_.ends_with_rows) state["sizes"] = spec_.sizes;
    return state;
  }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  // The rows of the next batch, added to `parts` unless that is null; false at the end. `error`:
  // the error of a batch of the input, which takes the rows before it along: they were to share
  // one.
  bool take_batch(std::vector<Element>* parts, std::exception_ptr* error);
  // The next batch.
  bool produce(StreamElement* out);
  // This replica's batch of the next round.
  bool read_round(StreamElement* out);
  // Passes over up to `count` batches; fewer only at the end. As skip().
  int64_t pass_over(int64_t count, std::exception_ptr* lost);
  // A batch without rows; false if there is no batch that shows its shape.
  bool make_empty(StreamElement* out);
  // Zero rows of the shape of the input's batches; nothing when the input has no batch.
  std::optional<Element> without_any_rows();

  const Open open_;
  OpenBatch rows_;
  const Rebatch spec_;
  const Sharding sharding_;
  int64_t made_ = 0, run_ = 0;  // batches; saved as rounds where sizes follow from the replicas
  std::optional<Element> empty_;
};

}  // namespace muster::inline v0_1::data::internal
