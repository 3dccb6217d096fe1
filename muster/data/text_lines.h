// Reads files of lines of text. Thread safety: a pure function.
#pragma once

#include <memory>

#include "muster/base/export.h"
#include "muster/data/element_reader.h"
#include "muster/formats/compression.h"

namespace muster::inline v0_1::data {

// Reads files whose elements are their lines, as Strings without \n or \r\n. Empty lines count, and
// the last line needs no line end. Positions are byte offsets. Reading throws Corrupt with file and
// line for a line over 1 GiB.
MUSTER_EXPORT std::shared_ptr<const FileFormat> text_line_format(
    formats::Compression compression = formats::Compression::kAuto);

}  // namespace muster::inline v0_1::data
