#include "muster/data/internal/source_reader.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/internal/batch_checks.h"
#include "muster/data/internal/row_collector.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

SourceReader::SourceReader(NodePtr node, const Run& run) : run_(run) {
  for (; node != nullptr; node = node->input()) {
    if (node->is<Map>()) maps_.push_back({node});
    if (const auto* from = node->as<FromSource>()) source_ = from->source;
  }
  std::reverse(maps_.begin(), maps_.end());
  for (size_t i = 0; i < maps_.size(); ++i) {
    const int calls = calls_of(std::get<Map>(maps_[i].node->spec));
    if (groups_.empty() || groups_.back().calls != calls) {
      groups_.push_back({calls, i, i, calls > 1 ? std::make_unique<WorkerPool>(calls) : nullptr});
    }
    groups_.back().end = i + 1;
  }
}

void SourceReader::apply(const Group& group, const SourceIndex& at, Element& element) const {
  if (run_.stopping()) throw Error(ErrorKind::kCancelled, "the iterator was closed");
  for (size_t i = group.begin; i < group.end; ++i) element = maps_[i](element, at, run_);
}

Element SourceReader::read(const SourceIndex& at) const {
  Element element = source_->element(at.index);
  for (const MapStage& map : maps_) element = map(element, at, run_);
  return element;
}

uint64_t SourceReader::element_bytes() const {
  return !maps_.empty() || source_->size() == 0 ? 0 : size_in_bytes(source_->element(0));
}

Element SourceReader::gather(std::span<const SourceIndex> rows_at, const Node& batch) {
  if (maps_.empty()) {
    indices_.resize(rows_at.size());
    for (size_t i = 0; i < rows_at.size(); ++i) indices_[i] = rows_at[i].index;
    return source_->gather(indices_);
  }
  if (rows_at.empty()) return Element::stack({});
  const auto n = static_cast<int64_t>(rows_at.size());
  Element first = read(rows_at.front());
  check_fits(batch, n, [&] { return size_in_bytes(first); });
  RowCollector rows(first, n, memory_);
  rows.put(0, std::move(first));
  std::vector<Element> elements(groups_.size() > 1 ? rows_at.size() : 0);  // between two groups
  for (const Group& group : groups_) {
    const bool begins = &group == &groups_.front(), ends = &group == &groups_.back();
    const auto apply_one = [&](size_t i) {
      Element element =
          begins ? source_->element(rows_at[i].index) : std::exchange(elements[i], Element());
      apply(group, rows_at[i], element);
      if (ends) {
        rows.put(static_cast<int64_t>(i), std::move(element));
      } else {
        elements[i] = std::move(element);
      }
    };
    if (group.pool == nullptr) {
      for (size_t i = 1; i < rows_at.size(); ++i) apply_one(i);
    } else if (rows_at.size() > 1) {
      group.pool->each(rows_at.size() - 1, [&](size_t i) { apply_one(i + 1); });
    }
  }
  return in_batch(batch, rows_at.front(), [&] { return rows.join(); });
}

}  // namespace muster::inline v0_1::data::internal
