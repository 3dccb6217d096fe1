#include "muster/data/internal/row_collector.h"

#include <cstring>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

bool is_plain(const Value& value) {
  return value.is_tensor() && value.tensor().defined() && value.tensor().device().is_cpu() &&
         value.tensor().layout() == at::kStrided;
}

}  // namespace

RowCollector::RowCollector(const Element& first, int64_t rows, BatchMemory& memory)
    : first_(first), kept_(static_cast<size_t>(rows)), fits_(static_cast<size_t>(rows), 0) {
  for (const Value& value : first.values()) {
    if (value.is_strings()) all_tensors_ = false;
    if (!is_plain(value)) {
      batches_.emplace_back();
      continue;
    }
    Shape shape = value.tensor().sizes().vec();
    shape.insert(shape.begin(), rows);
    batches_.push_back(memory.take(batches_.size(), shape, value.tensor()));
  }
}

void RowCollector::put(int64_t row, Element element) {
  const auto at = static_cast<size_t>(row);
  fits_[at] = copy(row, element) ? 1 : 0;
  if (fits_[at] == 0) all_fit_ = false;
  if (fits_[at] == 0 || !all_tensors_) kept_[at] = std::move(element);
}

bool RowCollector::copy(int64_t row, const Element& element) {
  if (!(element.structure() == first_.structure())) return false;
  for (size_t v = 0; v < batches_.size(); ++v) {
    const Value &value = element.values()[v], &like = first_.values()[v];
    if (like.is_strings()) {
      if (!value.is_strings() || value.strings().shape() != like.strings().shape()) return false;
    } else if (!is_plain(value) || !batches_[v].defined() ||
               value.tensor().scalar_type() != like.tensor().scalar_type() ||
               value.tensor().sizes() != like.tensor().sizes()) {
      return false;
    }
  }
  for (size_t v = 0; v < batches_.size(); ++v) {
    if (!batches_[v].defined()) continue;
    const Tensor& tensor = element.values()[v].tensor();
    if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
      const size_t bytes = tensor.nbytes();
      std::memcpy(static_cast<char*>(batches_[v].data_ptr()) + static_cast<size_t>(row) * bytes,
                  tensor.data_ptr(), bytes);
    } else {
      const torch::NoGradGuard no_grad;
      batches_[v].select(0, row).copy_(tensor);
    }
  }
  return true;
}

Element RowCollector::join() {
  if (!all_fit_) {
    // Element::stack() has the right error, or can join them anyway.
    for (size_t row = 0; row < kept_.size(); ++row) {
      if (fits_[row] == 0 || !all_tensors_) continue;
      std::vector<Value> values;
      for (const Tensor& batch : batches_) values.emplace_back(batch[static_cast<int64_t>(row)]);
      kept_[row] = Element::make(first_.shared_structure(), std::move(values));
    }
    return Element::stack(kept_);
  }
  std::vector<Value> values;
  for (size_t v = 0; v < batches_.size(); ++v) {
    if (batches_[v].defined()) {
      values.emplace_back(std::move(batches_[v]));
      continue;
    }
    std::vector<Value> column;
    for (const Element& element : kept_) column.push_back(element.values()[v]);
    values.push_back(Value::stack(column));
  }
  return Element::make(first_.shared_structure(), std::move(values));
}

}  // namespace muster::inline v0_1::data::internal
