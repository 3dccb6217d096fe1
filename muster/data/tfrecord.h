// Reads files of TFRecords: each record is one element. Thread safety: pure functions; what they
// return may be used from many threads.
#pragma once

#include <memory>

#include "muster/base/export.h"
#include "muster/data/element_reader.h"
#include "muster/formats/compression.h"

namespace muster::inline v0_1::data {

// Each element is a scalar string, the bytes of one record; a batch of n is strings [n]. Use an
// ExampleParser (example.h) if the records are tf.Examples.
//
// kAuto detects whether and how a file is compressed. Readers throw Corrupt with the path and the
// offset for damage. They continue after a record whose own checksum is wrong; a truncated file, a
// damaged length and damaged compression end the reading. Positions are byte offsets of
// uncompressed files; in compressed files restore() finds a position by reading up to it.
MUSTER_EXPORT std::shared_ptr<const FileFormat> tfrecord_format(
    formats::Compression compression = formats::Compression::kAuto);

}  // namespace muster::inline v0_1::data
