#include "muster/data/internal/choose.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

ChooseStream::ChooseStream(NodePtr node, const Run& run)
    : node_(std::move(node)), shared_(run), branches_(open_branches(*node_, run)) {
  exhausted_.resize(size());
  for (size_t i = 0; i < size(); ++i) {
    markers_.emplace_back(
        Origin{numbering_of(*branches_[i]->node), fmt::format("input {} of {}", i, node_->name)});
  }
}

void ChooseStream::start(int64_t run) {
  run_ = run;
  ended_ = false;
  drawn_ = emitted_ = 0;
  std::fill(exhausted_.begin(), exhausted_.end(), 0);
  for (const auto& branch : branches_) branch->stream->start(run);
}

size_t ChooseStream::draw() {
  double sum = 0;
  size_t last = size();  // the result if rounding leaves nothing
  for (size_t i = 0; i < size(); ++i) {
    if (exhausted_[i] != 0) continue;
    sum += spec().weights[i];
    last = i;
  }
  Random random(derive_key(
      spec().seed.value_or(shared_.seed()),
      {id_of("data.sample"), static_cast<uint64_t>(node_->ordinal),
       static_cast<uint64_t>(spec().rerandomize ? run_ : 0), static_cast<uint64_t>(drawn_++)}));
  double left = random.uniform() * sum;
  for (size_t i = 0; i < size(); ++i) {
    if (exhausted_[i] != 0) continue;
    left -= spec().weights[i];
    if (left < 0) return i;
  }
  return last;
}

size_t ChooseStream::choice() {
  StreamElement item;
  if (branches_.back()->stream->read(&item, 1) == 0) return size();
  if (item.error != nullptr) std::rethrow_exception(item.error);
  item.settle();
  const std::string hint = fmt::format("a choice is an int64 scalar, 0 to {}", size() - 1);
  const Element& element = item.element;
  if (!element.is_leaf() || !element.value().is_tensor() ||
      element.value().tensor().scalar_type() != kInt64 || element.value().tensor().numel() != 1) {
    throw invalid_argument(fmt::format("{}: a choice is {}", node_->name, element.describe()),
                           hint);
  }
  const auto chosen = element.value().tensor().item<int64_t>();
  if (chosen < 0 || chosen >= static_cast<int64_t>(size())) {
    throw invalid_argument(
        fmt::format("{}: a choice is {}, and there are {} data sets", node_->name, chosen, size()),
        hint);
  }
  return static_cast<size_t>(chosen);
}

size_t ChooseStream::choose() {
  const bool all = std::all_of(exhausted_.begin(), exhausted_.end(), [](char e) { return e != 0; });
  if (ended_ || all) return size();
  return spec().sampled ? draw() : choice();
}

bool ChooseStream::next(StreamElement* out) {
  while (!shared_.stopping()) {
    *out = {};
    size_t chosen = 0;
    try {
      chosen = choose();
    } catch (...) {
      out->error = current_failure();
      return true;
    }
    if (chosen == size()) return false;
    if (exhausted_[chosen] == 0 && branches_[chosen]->stream->read(out, 1) == 1) {
      // The inputs may number their elements alike.
      markers_[chosen].mark(out->from,
                            tag_within({static_cast<int64_t>(chosen), 0}, out->from.tag));
      return true;
    }
    exhausted_[chosen] = 1;
    if (spec().stop_on_empty) ended_ = true;
  }
  return false;
}

int64_t ChooseStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count && next(out + got)) ++got;
  emitted_ += got;
  return got;
}

int64_t ChooseStream::skip(int64_t count, std::exception_ptr* lost) {
  StreamElement item;
  int64_t skipped = 0;
  for (; skipped < count && next(&item); ++skipped) note_lost(item.error, lost);
  emitted_ += skipped;
  return skipped;
}

void ChooseStream::save(IteratorState& saved) const {
  saved.insert(saved.end(), {emitted_, run_, drawn_, ended_ ? 1 : 0});
  saved.insert(saved.end(), exhausted_.begin(), exhausted_.end());
  for (const auto& branch : branches_) branch->stream->save(saved);
}

Position ChooseStream::position(IteratorStateReader& saved) const {
  const int64_t emitted = saved.next();
  return {0, emitted, emitted};
}

json ChooseStream::identity() const {
  json state =
      identity_of(spec().sampled ? "sample_from_datasets" : "choose_from_datasets", branches_);
  if (!spec().sampled) return state;
  state["weights"] = spec().weights;
  state["seed"] = spec().seed ? json(*spec().seed) : json();
  state["rerandomize"] = spec().rerandomize;
  return state;
}

void ChooseStream::restore(IteratorStateReader& saved, int64_t) {
  const int64_t emitted = saved.count();
  start(saved.next());
  drawn_ = saved.count();
  ended_ = saved.count() != 0;
  for (char& exhausted : exhausted_) exhausted = saved.count() != 0 ? 1 : 0;
  for (const auto& branch : branches_) branch->stream->restore(saved, run_);
  emitted_ = emitted;
}

}  // namespace muster::inline v0_1::data::internal
