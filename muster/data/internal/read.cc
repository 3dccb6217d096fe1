#include "muster/data/internal/read.h"

namespace muster::inline v0_1::data::internal {

int64_t ReadStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  for (; got < count; ++got) {
    StreamElement& item = out[got];
    SourceIndex index;
    if (indices_->read(&index, 1) == 0) break;
    item.from = index;
    item.error = nullptr;
    item.block.reset();
    try {
      item.element = reader_.read(index);
    } catch (...) {
      item.error = current_failure();
    }
  }
  return got;
}

}  // namespace muster::inline v0_1::data::internal
