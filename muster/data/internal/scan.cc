#include "muster/data/internal/scan.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/internal/call_failure.h"
#include "muster/data/internal/element_codec.h"
#include "muster/data/internal/element_kinds.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

void ScanStream::start(int64_t run) {
  // In memory of its own: the function may write to it.
  state_ = spec().initial.transform([](const Value& value) -> Value {
    return value.is_tensor() ? Value(value.tensor().detach().clone()) : value;
  });
  PassingStream::start(run);
}

void ScanStream::apply(StreamElement& item) {
  if (item.error != nullptr) return;
  try {
    item.settle();
    const torch::NoGradGuard no_grad;
    auto [state, made] = spec().fn(state_, item.element);
    check_defined(state);
    check_defined(made);
    if (!same_kinds(state, spec().initial)) {
      throw invalid_argument(fmt::format("it made the state {}, which began as {}",
                                         describe_kinds(state), describe_kinds(spec().initial)),
                             "a state keeps its structure and its dtypes");
    }
    state_ = std::move(state);
    item.element = std::move(made);
  } catch (...) {
    item.error = call_failure(*node_, item.from, item.element);
  }
}

int64_t ScanStream::read(StreamElement* out, int64_t count) {
  const int64_t got = input().read(out, count);
  for (int64_t i = 0; i < got; ++i) apply(out[i]);
  return got;
}

int64_t ScanStream::skip(int64_t count, std::exception_ptr* lost) {
  StreamElement item;
  int64_t skipped = 0;
  for (; skipped < count && read(&item, 1) == 1; ++skipped) note_lost(item.error, lost);
  return skipped;
}

void ScanStream::save(IteratorState& saved) const {
  append_bytes(saved, encode_values(state_));
  PassingStream::save(saved);
}

Position ScanStream::position(IteratorStateReader& saved) const {
  (void)saved.bytes();
  return PassingStream::position(saved);
}

void ScanStream::restore(IteratorStateReader& saved, int64_t run) {
  const std::string bytes = saved.bytes();
  Element state;
  try {
    state = decode_values(muster::bytes_of(bytes));
  } catch (const Error&) {
    throw invalid_argument("the bytes position holds no state of a scan()");
  }
  if (!same_kinds(state, spec().initial)) {
    throw invalid_argument(
        fmt::format("the bytes position holds the state {} of a scan() that begins with {} here",
                    describe_kinds(state), describe_kinds(spec().initial)),
        "continue with the kind of state it was bytes with");
  }
  PassingStream::restore(saved, run);
  state_ = std::move(state);
}

}  // namespace muster::inline v0_1::data::internal
