// concatenate(): one input after another. Thread safety: as Stream.
#pragma once

#include <optional>

#include "muster/data/internal/branch.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

class ConcatenateStream final : public Stream<StreamElement> {
 public:
  ConcatenateStream(const NodePtr& node, const Run& run);

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override;
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  bool next_branch();
  // Puts an error in place of an element whose kinds differ from those of the first input.
  void check(StreamElement& item);
  // The kinds of the values of the inputs up to this one, by the first element that can be read;
  // nothing if there is none. If the inputs do not declare them, that element is read once more.
  const std::optional<Element>& kinds_before();

  const Run& shared_;
  std::optional<Element> kinds_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::vector<OriginMarker> markers_;  // by branch
  size_t at_ = 0;
  int64_t emitted_ = 0, run_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
