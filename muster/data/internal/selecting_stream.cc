#include "muster/data/internal/selecting_stream.h"

namespace muster::inline v0_1::data::internal {

int64_t SelectingStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count && !run_.stopping()) {
    // Reads only as many as are wanted: passed elements are handed on, so the input is positioned
    // after them.
    const int64_t more = input().read(out + got, count - got);
    if (more == 0) break;
    int64_t kept = got;
    for (int64_t i = got; i < got + more; ++i) {
      if (!passes(out[i])) continue;
      if (kept != i) out[kept] = std::move(out[i]);
      ++kept;
    }
    got = kept;
  }
  return got;
}

int64_t SelectingStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t skipped = 0;
  StreamElement item;
  while (skipped < count && !run_.stopping() && input().read(&item, 1) == 1) {
    if (!passes(item)) continue;
    ++skipped;
    note_lost(item.error, lost);
  }
  return skipped;
}

}  // namespace muster::inline v0_1::data::internal
