#include "muster/layers/internal/call_tape.h"

#include <unordered_set>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

[[noreturn]] void refuse_other_call() {
  throw invalid_argument(
      "Recompute: its layer asked for other variables or random keys when it was called again",
      "a layer is a pure function of its inputs, the context's variables and its random keys");
}

template <typename T>
const T& next_of(const std::vector<T>& all, size_t& place) {
  if (place == all.size()) refuse_other_call();
  return all[place++];
}

}  // namespace

void CallTape::note(const Tensor& value, bool is_state) {
  values.push_back({is_state ? value.detach().clone() : value, is_state});
}

void CallTape::append(const CallTape& inner) {
  values.insert(values.end(), inner.values.begin(), inner.values.end());
  row_uses.insert(row_uses.end(), inner.row_uses.begin(), inner.row_uses.end());
  keys.insert(keys.end(), inner.keys.begin(), inner.keys.end());
}

std::vector<Tensor> CallTape::leaves() const {
  std::vector<Tensor> all;
  std::unordered_set<const at::TensorImpl*> known;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.requires_grad() && known.insert(tensor.unsafeGetTensorImpl()).second)
      all.push_back(tensor);
  };
  for (const Value& value : values) add(value.tensor);
  for (const Variable::RowUse& use : row_uses) add(use.rows);
  return all;
}

const CallTape::Value& CallTapeReader::next_value() {
  const CallTape::Value& value = next_of(tape_.values, value_);
  if (!value.is_state) return value;
  // The tape is read again where backward runs twice.
  return copies_.emplace_back(CallTape::Value{value.tensor.clone(), true});
}

const Variable::RowUse& CallTapeReader::next_row_use() { return next_of(tape_.row_uses, row_use_); }

RandomKey CallTapeReader::next_key() { return next_of(tape_.keys, key_); }

void CallTapeReader::check_all_read() const {
  if (value_ != tape_.values.size() || row_use_ != tape_.row_uses.size() ||
      key_ != tape_.keys.size()) {
    refuse_other_call();
  }
}

Tensor rows_of(const Variable::RowUse& use, const Tensor& ids) {
  const Tensor flat = ids.reshape({-1}).to(use.ids.device(), kInt64);
  std::vector<int64_t> shape = ids.sizes().vec();
  shape.insert(shape.end(), use.rows.sizes().begin() + 1, use.rows.sizes().end());
  return use.rows.index_select(0, at::searchsorted(use.ids, flat)).view(shape);
}

Variable::PlacedRows placed_rows_of(const Variable::RowUse& use, const Tensor& ids) {
  const Tensor given = ids.to(kInt64);
  return {use.rows, at::where(given.lt(0), -1, at::searchsorted(use.ids, given))};
}

}  // namespace muster::inline v0_1::internal
