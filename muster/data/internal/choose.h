// choose_from_datasets() and sample_from_datasets(): each element from one of several inputs.
// Thread safety: as Stream.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "muster/data/internal/branch.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

class ChooseStream final : public Stream<StreamElement> {
 public:
  ChooseStream(NodePtr node, const Run& run);

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override;
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  const Choose& spec() const { return std::get<Choose>(node_->spec); }
  // How many inputs there are to choose from.
  size_t size() const { return branches_.size() - (spec().sampled ? 0 : 1); }
  // The input of the next element; size() at the end. Throws the errors of the choices, and an
  // error for an impossible choice.
  size_t choose();
  // Draws among the inputs that have not ended, each as likely as its weight.
  size_t draw();
  // The number that the next choice names.
  size_t choice();
  // The next element, or its error; false at the end.
  bool next(StreamElement* out);

  const NodePtr node_;
  const Run& shared_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::vector<OriginMarker> markers_;  // by branch
  std::vector<char> exhausted_;        // by branch
  bool ended_ = false;
  int64_t drawn_ = 0;  // in this pass
  int64_t emitted_ = 0, run_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
