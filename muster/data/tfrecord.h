// Reads files of TFRecords: each record is one element. Thread safety: pure functions; what they
// return may be used from many threads.
#pragma once

#include <memory>

#include "muster/base/export.h"
#include "muster/data/element_reader.h"
#include "muster/formats/compression.h"

namespace muster::inline v0_1::data {

// Each element is a scalar string, the bytes of one record; a batch of n is strings [n]. Give them
// to an ExampleParser (example.h) when the records are tf.Examples.
//
// kAuto finds out whether a file is compressed and how. Readers throw Corrupt, naming the path and
// the offset, for damage. They go on behind a record whose own checksum is wrong; a cut file, a
// damaged length and damaged compression end the reading. Positions are byte offsets of plain
// files; in compressed files a place is found again by reading up to it.
MUSTER_EXPORT std::shared_ptr<const FileFormat> tfrecord_format(
    formats::Compression compression = formats::Compression::kAuto);

}  // namespace muster::inline v0_1::data
