#include "muster/data/internal/enumerate.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

int64_t EnumerateStream::read(StreamElement* out, int64_t count) {
  const int64_t got = input().read(out, count);
  for (int64_t i = 0; i < got; ++i, ++count_) {
    if (out[i].error != nullptr) continue;
    out[i].settle();
    out[i].element = Element::tuple(
        {Element(torch::scalar_tensor(start_ + count_, at::kLong)), std::move(out[i].element)});
  }
  return got;
}

int64_t EnumerateStream::skip(int64_t count, std::exception_ptr* lost) {
  const int64_t skipped = input().skip(count, lost);
  count_ += skipped;
  return skipped;
}

}  // namespace muster::inline v0_1::data::internal
