// What a confined process does with libhdf5. Thread safety: for the one thread of such a process.
#pragma once

#include "muster/hdf/hdf_file.h"
#include "muster/hdf/internal/confined_child.h"

namespace muster::inline v0_1::hdf::internal {

// Answers with the encoded listing of the file.
void list_hdf(ConfinedFile& file);
// Answers with the numbers of an array of the listing, little-endian.
void unpack_hdf(ConfinedFile& file, const HdfArray& array);

// The listing as bytes, and back. decode_listing() gives nothing for what encode_listing() does not
// write: a process that a file has taken over may answer anything.
std::string encode_listing(const HdfListing& listing);
std::optional<HdfListing> decode_listing(Bytes bytes);

}  // namespace muster::inline v0_1::hdf::internal
