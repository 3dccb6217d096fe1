#include "muster/data/internal/unbatch.h"

#include <algorithm>

namespace muster::inline v0_1::data::internal {

int64_t UnbatchStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count) {
    std::exception_ptr error;
    if (rows_.refill(&error)) {
      const int64_t more = std::min(count - got, rows_.left());
      const int64_t first = rows_.row();
      for (int64_t i = 0; i < more; ++i) {
        StreamElement& item = out[got + i];
        item.error = nullptr;
        item.element = {};
        item.block = rows_.batch();
        item.row = first + i;
        item.from = SourceIndex{rows_.tag().index + item.row, rows_.tag().run};
      }
      rows_.pass(more);
      got += more;
    } else if (error != nullptr) {
      out[got] = {};
      out[got++].error = error;
    } else {
      break;
    }
  }
  return got;
}

int64_t UnbatchStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t skipped = 0;
  while (skipped < count) {
    std::exception_ptr error;
    if (rows_.refill(&error)) {
      const int64_t more = std::min(count - skipped, rows_.left());
      rows_.pass(more);
      skipped += more;
    } else if (error != nullptr) {
      ++skipped;
      note_lost(error, lost);
    } else {
      break;
    }
  }
  return skipped;
}

}  // namespace muster::inline v0_1::data::internal
