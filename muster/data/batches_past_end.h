// Returns the batches of one replica. Where each process has data of its own, a replica may run out
// of data before the others; it then gives batches of zero rows, so that it takes part in their
// steps. Thread safety: as Iterator.
//
//   BatchesPastEnd batches(std::move(input.iterator));
//   std::string spec = batches.spec();             // empty on a replica without data
//   ...                                            // the first that is not empty over all replicas
//   batches.set_spec(spec);
//   const bool has_data = batches.read(&element);  // false: `element` has zero rows
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/iterator.h"

namespace muster::inline v0_1::data {

// An iterator that continues with batches of zero rows at the end of another one.
class MUSTER_PART_EXPORT BatchesPastEnd final : public Iterator {
 public:
  explicit BatchesPastEnd(std::unique_ptr<Iterator> iterator);
  ~BatchesPastEnd() override;

  // Returns the form of the batches, as encode_batch_spec() writes it; empty if no batch is left.
  // It reads one batch ahead, which is still returned later. Throws InvalidArgument for an element
  // that is not a batch, and the iterator's errors.
  std::string spec();
  // Sets the form of the batches of zero rows, if spec() of this replica is empty. Throws Internal
  // for a text that encode_batch_spec() does not write.
  void set_spec(const std::string& spec);
  // Returns the result of the next read(), without moving; at the end that is a batch of zero rows.
  // REQUIRES: the form is known.
  const Element& peek();

  // Returns the next batch. Returns false at the end, and at every call after it; then *out has
  // zero rows when their form is known.
  bool read(Element* out);
  // As every iterator: nothing at the end.
  std::optional<Element> next() override;
  // Returns the position after the last batch that was given, whatever spec() and peek() have
  // read.
  nlohmann::json save() const override;
  void restore(const nlohmann::json& state) override;
  Position position() const override;
  int64_t remaining() const override;
  std::vector<StageTime> times() const override { return iterator_->times(); }

 private:
  struct Ahead;
  // Reads the next batch; returns false when no batch is left.
  bool read_ahead();

  const std::unique_ptr<Iterator> iterator_;
  std::unique_ptr<Ahead> ahead_;
  std::optional<Element> zero_rows_;
};

}  // namespace muster::inline v0_1::data
