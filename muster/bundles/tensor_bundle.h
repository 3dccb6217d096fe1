// Checkpoints in TensorFlow's format of version 2 ("tensor bundles"): "<prefix>.index", a sorted
// table of the places of all tensors, and "<prefix>.data-00000-of-00002" and so on, which hold the
// bytes. Numbers are as in the files; tensorflow_checkpoint.h makes tensors of them. Source of the
// format: tensorflow/core/protobuf/tensor_bundle.proto. Thread safety: a reader may be shared; a
// writer belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1::tensorflow {

// TensorFlow's dtypes that a checkpoint may hold, with their numbers in its files.
enum class BundleDtype : int {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kUint32 = 22,
  kUint64 = 23,
};

// The bytes of one element; 0 for texts, and for dtypes that are not in the table above.
size_t element_bytes(BundleDtype dtype);
// "float32", "string"; "dtype 21" for a dtype that is not in the table above.
MUSTER_PART_EXPORT std::string describe(BundleDtype dtype);

// Elements that lie together in one file.
struct BundlePiece {
  std::vector<int64_t>
      begin{};  // its first element's place in the tensor, one number for each axis
  std::vector<int64_t> shape{};
  int shard = 0;        // the number of the file
  uint64_t offset = 0;  // in it, in bytes
  uint64_t bytes = 0;
  uint32_t checksum = 0;  // CRC-32C of the bytes
};

// One tensor: a piece that is all of it, or the parts of a partitioned variable.
struct BundleEntry {
  BundleDtype dtype = BundleDtype::kFloat;
  std::vector<int64_t> shape{};
  std::vector<BundlePiece> pieces{};
};

// An open checkpoint, whose index has been read and verified.
class MUSTER_PART_EXPORT BundleReader {
 public:
  // Throws NotFound if there is no "<prefix>.index", Corrupt if the index is damaged, contradicts
  // itself, or names a file that is missing or too short, and InvalidArgument for a file in the
  // other byte order.
  BundleReader(FileSystem& files, std::string prefix);

  const std::string& prefix() const { return prefix_; }
  // By name, without the parts of partitioned variables, which are their pieces.
  const std::map<std::string, BundleEntry>& entries() const { return entries_; }

  // Reads and verifies a piece. `out` has as many bytes. Throws Corrupt naming `name`, the tensor,
  // and the file when it is damaged.
  void read(const std::string& name, const BundlePiece& piece, MutableBytes out) const;
  // Reads and verifies a piece, `window` bytes at a time. Throws Corrupt as read().
  void verify(const std::string& name, const BundlePiece& piece, uint64_t window) const;
  // Fills `out` with the bytes from `offset` on of a piece, without verifying them.
  void read_range(const BundlePiece& piece, uint64_t offset, MutableBytes out) const;
  // Reads and verifies the texts of an entry of dtype kString, in order. Throws Corrupt as read().
  std::vector<std::string> read_texts(const std::string& name, const BundleEntry& entry) const;

 private:
  std::string path_of(int shard) const;
  void add_entry(const std::string& key, Bytes value, const std::map<std::string, Bytes>& by_key);
  void check(const std::string& name, const BundlePiece& piece, uint32_t checksum) const;
  BundlePiece piece_of(const std::string& name, Bytes value, BundleEntry* entry) const;

  FileSystem& files_;
  const std::string prefix_;
  int shards_ = 0;
  std::vector<std::unique_ptr<FileReader>> data_;
  std::vector<uint64_t> sizes_;
  std::map<std::string, BundleEntry> entries_;
};

// Writes a checkpoint of one file of data and its index. Tensors come one after another; the
// checkpoint has its name when end() returns.
class MUSTER_PART_EXPORT BundleWriter {
 public:
  // Throws the errors of opening the file.
  BundleWriter(FileSystem& files, std::string prefix);

  // Adds a tensor of numbers, in memory order. Throws InvalidArgument for a name that is empty or
  // exists already, and the errors of writing.
  void add(const std::string& name, BundleDtype dtype, const std::vector<int64_t>& shape,
           Bytes bytes);
  // Adds texts.
  void add_texts(const std::string& name, const std::vector<int64_t>& shape,
                 const std::vector<std::string>& texts);
  // Writes the index, and gives both files their names, the index last. Throws the errors of
  // writing; then no new file exists under the index's name.
  void end();

 private:
  void note(const std::string& name, BundleDtype dtype, const std::vector<int64_t>& shape,
            uint64_t bytes, uint32_t checksum);

  FileSystem& files_;
  const std::string prefix_;
  std::unique_ptr<StagedWriter> data_;
  uint64_t offset_ = 0;
  std::map<std::string, std::string> index_;  // encoded entries
};

}  // namespace muster::inline v0_1::tensorflow
