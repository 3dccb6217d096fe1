// HDF5 files as h5py and Keras write them, read by libhdf5 in a confined process
// (internal/confined_child.h): what the file lists is found there, and numbers that lie in it as
// they are, in one piece, are read without libhdf5. Thread safety: an open file may be shared.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::hdf {

enum class HdfDtype : uint8_t {
  kOther,  // no number: texts, records
  kFloat16,
  kBfloat16,  // also what Keras writes as two opaque bytes with the attribute "dtype"
  kFloat32,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kBool,  // h5py's: one byte
};

// "float32"; "other" of kOther.
std::string_view describe(HdfDtype dtype);
// Bytes of one number; 0 of kOther.
uint64_t element_bytes(HdfDtype dtype);

// An array of a file.
struct HdfArray {
  std::string path{};  // "layers/dense/vars/0"
  HdfDtype dtype = HdfDtype::kOther;
  bool big_endian = false;
  std::vector<int64_t> shape{};
  uint64_t bytes = 0;                // of its numbers; 0 of kOther
  std::optional<uint64_t> offset{};  // where they lie as they are; nothing where they are packed
};

// What a file holds.
struct HdfListing {
  std::vector<HdfArray> arrays{};     // sorted by path
  std::vector<std::string> groups{};  // paths, the root's is ""
  // Attributes that hold texts, by the path of their group and their name: those that Keras writes.
  std::map<std::string, std::map<std::string, std::vector<std::string>>> texts{};
};

class HdfFile {
 public:
  // Reads what the file lists. Throws Corrupt naming the file where it is damaged, or arrays
  // overlap. Throws InvalidArgument, naming the object, for what h5py writes only when it is told
  // to: links that are soft or lead to other files, an object with two names and so a cycle, data
  // in other files, virtual arrays, user blocks, filters other than deflate, shuffle and
  // fletcher32, chunks of more than 256 MiB, and groups in more than 32 others.
  explicit HdfFile(std::shared_ptr<FileReader> file);

  const HdfListing& listing() const { return listing_; }
  const std::string& name() const { return file_->name(); }

  // Fills `out`, of array.bytes, with its numbers in the order of this machine's bytes. Throws
  // Corrupt for what is packed and damaged.
  void read(const HdfArray& array, MutableBytes out) const;
  // Fills `out` with its numbers from byte `begin` on. What is packed is read as a whole for it.
  void read_range(const HdfArray& array, uint64_t begin, MutableBytes out) const;

 private:
  std::string unpack(const HdfArray& array) const;

  std::shared_ptr<FileReader> file_;
  HdfListing listing_;
};

}  // namespace muster::inline v0_1::hdf
