// zip(): element i of every input. Thread safety: as Stream.
#pragma once

#include "muster/data/internal/branch.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

class ZipStream final : public Stream<StreamElement> {
 public:
  ZipStream(NodePtr node, const Run& run);

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override;
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  const NodePtr node_;
  std::vector<std::unique_ptr<Branch>> branches_;
  OriginMarker first_;  // from the first input, which gives the tags
  bool ended_ = false;
};

}  // namespace muster::inline v0_1::data::internal
