// Files of lines of text. Thread safety: a pure function.
#pragma once

#include <memory>

#include "muster/data/element_reader.h"
#include "muster/formats/compression.h"

namespace muster::inline v0_1::data {

// Reads files whose rows are their lines, as Strings: without \n or \r\n, empty ones too; the last
// one needs no line end. Positions are byte offsets. Reading throws Corrupt for a line over 1 GiB,
// naming file and line.
std::shared_ptr<const FileFormat> text_line_format(
    formats::Compression compression = formats::Compression::kAuto);

}  // namespace muster::inline v0_1::data
