#include "muster/data/element_reader.h"

#include "muster/base/error.h"

namespace muster::inline v0_1 {

int64_t ElementReader::skip(int64_t count) {
  if (count <= 0) return 0;
  Element rows;
  return read(count, &rows);
}

void ElementReader::seek(int64_t) {
  throw internal_error("seek() of a reader whose tell() returns no position");
}

}  // namespace muster::inline v0_1
