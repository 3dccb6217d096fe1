#include "muster/data/element_reader.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {

int64_t ElementReader::skip(int64_t count) {
  Element rows;
  int64_t skipped = 0;
  while (skipped < count) {
    int64_t got = 1;
    try {
      got = read(count - skipped, &rows);
    } catch (...) {
      // It takes its place all the same.
    }
    if (got == 0) break;
    skipped += got;
  }
  return skipped;
}

void ElementReader::seek(int64_t) {
  throw internal_error("seek() of a reader whose tell() gives no place");
}

}  // namespace muster::inline v0_1
