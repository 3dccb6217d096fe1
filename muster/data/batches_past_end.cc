#include "muster/data/batches_past_end.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/tensor/batch.h"
#include "muster/tensor/element_spec.h"

namespace muster::inline v0_1::data {

using nlohmann::json;

// A batch that was read ahead, and where the iterator stood before it.
struct BatchesPastEnd::Ahead {
  Element batch{};
  json state{};
  Position position;
};

BatchesPastEnd::BatchesPastEnd(std::unique_ptr<Iterator> iterator)
    : iterator_(std::move(iterator)) {}

BatchesPastEnd::~BatchesPastEnd() = default;

bool BatchesPastEnd::read_ahead() {
  if (ahead_) return true;
  auto ahead =
      std::make_unique<Ahead>(Ahead{.state = iterator_->save(), .position = iterator_->position()});
  std::optional<Element> batch = iterator_->next();
  if (!batch) return false;
  ahead->batch = *std::move(batch);
  ahead_ = std::move(ahead);
  return true;
}

std::string BatchesPastEnd::spec() {
  if (!read_ahead()) return "";
  (void)to_batch(ahead_->batch);  // throws for an element that is not a batch
  std::string spec = encode_batch_spec(ahead_->batch);
  set_spec(spec);
  return spec;
}

void BatchesPastEnd::set_spec(const std::string& spec) { zero_rows_ = zero_rows(spec); }

const Element& BatchesPastEnd::peek() { return read_ahead() ? ahead_->batch : *zero_rows_; }

bool BatchesPastEnd::read(Element* out) {
  if (std::optional<Element> batch = next()) {
    *out = *std::move(batch);
    return true;
  }
  if (zero_rows_) *out = *zero_rows_;
  return false;
}

std::optional<Element> BatchesPastEnd::next() {
  if (!ahead_) return iterator_->next();
  Element batch = std::move(ahead_->batch);
  ahead_.reset();
  return batch;
}

json BatchesPastEnd::save() const { return ahead_ ? ahead_->state : iterator_->save(); }

void BatchesPastEnd::restore(const json& state) {
  iterator_->restore(state);
  ahead_.reset();
}

Position BatchesPastEnd::position() const {
  return ahead_ ? ahead_->position : iterator_->position();
}

int64_t BatchesPastEnd::remaining() const {
  const int64_t left = iterator_->remaining();
  return left < 0 ? left : left + (ahead_ ? 1 : 0);
}

}  // namespace muster::inline v0_1::data
