// The batches of one replica. Where each process has data of its own, a replica may run out before
// the others; it then gives batches of zero rows, so that it takes part in their steps. Thread
// safety: as Iterator.
//
//   ReplicaBatches batches(std::move(input.iterator));
//   std::string spec = batches.spec();             // empty on a replica without data
//   ...                                            // the first that is not empty over all replicas
//   batches.set_spec(spec);
//   const bool has_data = batches.next(&element);  // false: `element` has zero rows
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/data/iterator.h"

namespace muster::inline v0_1::data {

// An iterator that goes on with batches of zero rows.
class ReplicaBatches final : public Iterator {
 public:
  explicit ReplicaBatches(std::unique_ptr<Iterator> iterator);
  ~ReplicaBatches() override;

  // The form of its batches, as encode_batch_spec() writes it; empty when no batch is left. Reads
  // one batch ahead, which next() still gives. Throws InvalidArgument for an element that is no
  // batch, and what the iterator throws.
  std::string spec();
  // The form of its batches of zero rows, where spec() of this replica is empty. Throws Internal
  // for a text that encode_batch_spec() does not write.
  void set_spec(const std::string& spec);
  // What next() gives, without going on: at the end, zero rows. REQUIRES: the form is known.
  const Element& peek();

  // False at the end, and at every call after it; then *out has zero rows when their form is known.
  bool next(Element* out) override;
  // The position behind the last batch next() gave, whatever spec() and peek() have read.
  nlohmann::json save() const override;
  void restore(const nlohmann::json& state) override;
  Position position() const override;
  int64_t remaining() const override;
  std::vector<StageTime> times() const override { return iterator_->times(); }

 private:
  struct Ahead;
  // False when no batch is left.
  bool read_ahead();

  const std::unique_ptr<Iterator> iterator_;
  std::unique_ptr<Ahead> ahead_;
  std::optional<Element> zero_rows_;
};

}  // namespace muster::inline v0_1::data
