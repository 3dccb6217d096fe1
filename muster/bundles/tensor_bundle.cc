#include "muster/bundles/tensor_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/bundles/internal/slice_key.h"
#include "muster/bundles/internal/sorted_table.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::tensorflow {
namespace {

using formats::internal::Builder;
using formats::internal::Message;
using formats::internal::ShapeField;
using internal::Extent;

// How much of the index is read at most, in bytes: a million tensors.
constexpr uint64_t kMostIndexBytes = uint64_t{256} << 20;
constexpr int kLittleEndian = 0;

// BundleHeaderProto, under the empty key.
enum class HeaderField : uint32_t { kShards = 1, kEndianness = 2, kVersion = 3 };
enum class VersionField : uint32_t { kProducer = 1 };
// BundleEntryProto.
enum class EntryField : uint32_t {
  kDtype = 1,
  kShape = 2,
  kShard = 3,
  kOffset = 4,
  kSize = 5,
  kChecksum = 6,
  kSlices = 7,
};
// TensorSliceProto, and its extents.
enum class SliceField : uint32_t { kExtent = 1 };
enum class ExtentField : uint32_t { kStart = 1, kLength = 2 };

struct DtypeRow {
  BundleDtype dtype;
  const char* name;
  size_t bytes;
};
constexpr std::array<DtypeRow, 16> kDtypes = {{
    {BundleDtype::kFloat, "float32", 4},
    {BundleDtype::kDouble, "float64", 8},
    {BundleDtype::kInt32, "int32", 4},
    {BundleDtype::kUint8, "uint8", 1},
    {BundleDtype::kInt16, "int16", 2},
    {BundleDtype::kInt8, "int8", 1},
    {BundleDtype::kString, "string", 0},
    {BundleDtype::kComplex64, "complex64", 8},
    {BundleDtype::kInt64, "int64", 8},
    {BundleDtype::kBool, "bool", 1},
    {BundleDtype::kBfloat16, "bfloat16", 2},
    {BundleDtype::kUint16, "uint16", 2},
    {BundleDtype::kComplex128, "complex128", 16},
    {BundleDtype::kHalf, "float16", 2},
    {BundleDtype::kUint32, "uint32", 4},
    {BundleDtype::kUint64, "uint64", 8},
}};

const DtypeRow* row_of(BundleDtype dtype) {
  const auto* row = std::ranges::find(kDtypes, dtype, &DtypeRow::dtype);
  return row == kDtypes.end() ? nullptr : row;
}

std::string index_path(const std::string& prefix) { return prefix + ".index"; }

std::string data_path(const std::string& prefix, int shard, int shards) {
  return fmt::format("{}.data-{:05d}-of-{:05d}", prefix, shard, shards);
}

// The product, or nothing if it is larger than any memory.
std::optional<uint64_t> elements_of(const std::vector<int64_t>& shape) {
  uint64_t all = 1;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size > 0 && all > std::numeric_limits<int64_t>::max() / static_cast<uint64_t>(size))
      return std::nullopt;
    all *= static_cast<uint64_t>(size);
  }
  return all;
}

std::vector<Extent> extents_of(Message<SliceField> slice) {
  std::vector<Extent> extents;
  for (Message<ExtentField> each; slice.find(SliceField::kExtent, &each);) {
    Extent& extent = extents.emplace_back();
    while (each.next()) {
      each.read(ExtentField::kStart, &extent.start);
      each.read(ExtentField::kLength, &extent.length);
    }
  }
  return extents;
}

}  // namespace

size_t element_bytes(BundleDtype dtype) {
  const DtypeRow* row = row_of(dtype);
  return row == nullptr ? 0 : row->bytes;
}

std::string describe(BundleDtype dtype) {
  const DtypeRow* row = row_of(dtype);
  return row == nullptr ? fmt::format("dtype {}", static_cast<int>(dtype)) : row->name;
}

std::string BundleReader::path_of(int shard) const { return data_path(prefix_, shard, shards_); }

BundleReader::BundleReader(FileSystem& files, std::string prefix)
    : files_(files), prefix_(std::move(prefix)) {
  const std::string path = index_path(prefix_);
  const uint64_t size = files_.file_size(path).value();
  if (size > kMostIndexBytes) {
    throw corrupt(
        fmt::format("'{}' has {} bytes; an index has at most {}", path, size, kMostIndexBytes));
  }
  const std::string file = files_.read_file(path).value();
  const std::vector<internal::TableEntry> table = internal::read_sorted_table(bytes_of(file), path);
  try {
    if (table.empty() || !table.front().first.empty()) throw corrupt("it has no header");
    int endianness = kLittleEndian;
    Message<HeaderField> header(bytes_of(table.front().second));
    while (header.next()) {
      header.read(HeaderField::kShards, &shards_);
      header.read(HeaderField::kEndianness, &endianness);
    }
    if (endianness != kLittleEndian) {
      throw invalid_argument(
          "not supported: it was written by a machine whose numbers have their highest byte first",
          "load it there, and save it as safetensors");
    }
    if (shards_ < 1) throw corrupt(fmt::format("it names {} files of data", shards_));
    for (int shard = 0; shard < shards_; ++shard) {
      auto data = files_.open_reader(path_of(shard));
      if (!data.ok()) throw corrupt("one of its files cannot be read: " + data.error().message());
      sizes_.push_back(data.value()->size().value());
      data_.push_back(std::move(data.value()));
    }
    std::map<std::string, Bytes> by_key;
    for (const auto& [key, value] : table) by_key[key] = bytes_of(value);
    for (const auto& [key, value] : by_key) {
      if (!key.empty() && !internal::is_slice_key(key)) add_entry(key, value, by_key);
    }
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("'{}': {}", path, error.message()), error.hint());
  }
}

BundlePiece BundleReader::piece_of(const std::string& name, Bytes value, BundleEntry* entry) const {
  BundlePiece piece;
  int dtype = 0;
  // Signed in the files: a number below 0 is damage, and a very large one here.
  int64_t offset = 0, bytes = 0;
  uint32_t checksum = 0;
  Message<ShapeField> shape;
  Message<EntryField> fields(value);
  while (fields.next()) {
    fields.read(EntryField::kDtype, &dtype);
    if (fields.read(EntryField::kShape, &shape)) piece.shape = decode_shape(shape);
    fields.read(EntryField::kShard, &piece.shard);
    fields.read(EntryField::kOffset, &offset);
    fields.read(EntryField::kSize, &bytes);
    fields.read_fixed(EntryField::kChecksum, &checksum);
  }
  piece.checksum = unmask_crc32c(checksum);
  piece.offset = static_cast<uint64_t>(offset);
  piece.bytes = static_cast<uint64_t>(bytes);
  piece.begin.assign(piece.shape.size(), 0);
  entry->dtype = static_cast<BundleDtype>(dtype);
  const std::optional<uint64_t> elements = elements_of(piece.shape);
  const size_t each = element_bytes(entry->dtype);
  const bool fits =
      elements &&
      (each == 0 || (*elements <= piece.bytes / each && *elements * each == piece.bytes));
  if (!fits) {
    throw corrupt(fmt::format("the tensor '{}' has {} bytes, which is not {} [{}]", name,
                              piece.bytes, describe(entry->dtype), fmt::join(piece.shape, ", ")));
  }
  const bool there = piece.shard >= 0 && piece.shard < shards_ &&
                     piece.offset <= sizes_[static_cast<size_t>(piece.shard)] &&
                     piece.bytes <= sizes_[static_cast<size_t>(piece.shard)] - piece.offset;
  if (!there) {
    throw corrupt(fmt::format(
        "the tensor '{}' needs {} bytes from byte {} of file {} on, but the file is shorter", name,
        piece.bytes, piece.offset, piece.shard));
  }
  return piece;
}

void BundleReader::add_entry(const std::string& key, Bytes value,
                             const std::map<std::string, Bytes>& by_key) {
  std::vector<std::vector<Extent>> slices;
  std::vector<int64_t> shape;
  int dtype = 0;
  Message<EntryField> fields(value);
  for (Message<SliceField> slice; fields.next();) {
    Message<ShapeField> sizes;
    fields.read(EntryField::kDtype, &dtype);
    if (fields.read(EntryField::kShape, &sizes)) shape = decode_shape(sizes);
    if (fields.read(EntryField::kSlices, &slice)) slices.push_back(extents_of(slice));
  }
  BundleEntry entry;
  if (slices.empty()) {
    entry.pieces.push_back(piece_of(key, value, &entry));
    entry.shape = entry.pieces.front().shape;
    entries_.emplace(key, std::move(entry));
    return;
  }
  const auto wrong = [&](const std::string& what) {
    return corrupt(
        fmt::format("the partitioned variable '{}' [{}]: {}", key, fmt::join(shape, ", "), what));
  };
  const std::optional<uint64_t> all = elements_of(shape);
  if (!all) throw wrong("it is not a shape");
  uint64_t covered = 0;
  for (std::vector<Extent>& extents : slices) {
    const auto part = by_key.find(internal::slice_key(key, extents));
    if (part == by_key.end()) throw wrong("one of its parts is missing");
    BundlePiece piece = piece_of(key, part->second, &entry);
    if (static_cast<int>(entry.dtype) != dtype) throw wrong("a part is " + describe(entry.dtype));
    if (extents.size() != shape.size() || piece.shape.size() != shape.size())
      throw wrong("a part has another number of axes");
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const Extent& extent = extents[axis];
      const int64_t length = extent.length < 0 ? shape[axis] : extent.length;
      if (extent.start < 0 || length != piece.shape[axis] || length > shape[axis] ||
          extent.start > shape[axis] - length)
        throw wrong("a part does not lie in it");
      piece.begin[axis] = extent.start;
    }
    covered += *elements_of(piece.shape);
    entry.pieces.push_back(std::move(piece));
  }
  if (covered != *all)
    throw wrong(fmt::format("its parts have {} of its {} elements", covered, *all));
  entry.shape = std::move(shape);
  entries_.emplace(key, std::move(entry));
}

void BundleReader::read_range(const BundlePiece& piece, uint64_t offset, MutableBytes out) const {
  data_[static_cast<size_t>(piece.shard)]->read_exactly_at(piece.offset + offset, out).value();
}

void BundleReader::check(const std::string& name, const BundlePiece& piece,
                         uint32_t checksum) const {
  if (checksum == piece.checksum) return;
  throw corrupt(fmt::format(
      "'{}': the tensor '{}' is damaged: its checksum is {:08x}, but the index has {:08x}",
      path_of(piece.shard), name, checksum, piece.checksum));
}

void BundleReader::read(const std::string& name, const BundlePiece& piece, MutableBytes out) const {
  read_range(piece, 0, out);
  check(name, piece, crc32c(out));
}

void BundleReader::verify(const std::string& name, const BundlePiece& piece,
                          uint64_t window) const {
  std::string bytes(std::min(piece.bytes, window), '\0');
  uint32_t checksum = crc32c({});
  for (uint64_t at = 0; at < piece.bytes; at += bytes.size()) {
    bytes.resize(std::min(piece.bytes - at, window));
    read_range(piece, at, std::as_writable_bytes(std::span(bytes)));
    checksum = extend_crc32c(checksum, bytes_of(bytes));
  }
  check(name, piece, checksum);
}

std::vector<std::string> BundleReader::read_texts(const std::string& name,
                                                  const BundleEntry& entry) const {
  const BundlePiece& piece = entry.pieces.front();
  const auto damaged = [&](const std::string& what) {
    return corrupt(
        fmt::format("'{}': the texts of '{}' are damaged: {}", path_of(piece.shard), name, what));
  };
  if (entry.pieces.size() != 1) throw damaged("they lie in several pieces");
  std::string bytes(piece.bytes, '\0');
  read_range(piece, 0, std::as_writable_bytes(std::span(bytes)));
  const uint64_t count = elements_of(piece.shape).value();
  if (count > bytes.size()) throw damaged(fmt::format("{} texts in {} bytes", count, bytes.size()));
  // Their lengths, a checksum of these, and the texts. The checksum of all is one of the lengths as
  // numbers of four bytes, or of eight where they need them, and of all that follows.
  formats::internal::WireReader reader(bytes_of(bytes));
  std::vector<uint64_t> lengths(count);
  std::string numbers;
  uint64_t sum = 0;
  for (uint64_t& length : lengths) {
    if (!reader.varint(&length) || length > bytes.size()) throw damaged("a length");
    sum += length;
    if (length <= std::numeric_limits<uint32_t>::max()) {
      append_little_endian(numbers, static_cast<uint32_t>(length));
    } else {
      append_little_endian(numbers, length);
    }
  }
  const Bytes rest = reader.rest();
  if (rest.size() < sizeof(uint32_t) || sum != rest.size() - sizeof(uint32_t))
    throw damaged("their lengths do not add up");
  const uint32_t of_lengths = crc32c(bytes_of(numbers));
  if (load_little_endian<uint32_t>(rest.data()) != mask_crc32c(of_lengths))
    throw damaged("the checksum of their lengths");
  if (extend_crc32c(of_lengths, rest) != piece.checksum) throw damaged("the checksum");
  std::vector<std::string> texts;
  size_t at = sizeof(uint32_t);
  for (const uint64_t length : lengths) {
    texts.emplace_back(text_of(rest.subspan(at, length)));
    at += length;
  }
  return texts;
}

BundleWriter::BundleWriter(FileSystem& files, std::string prefix)
    : files_(files),
      prefix_(std::move(prefix)),
      data_(files_.open_staged(data_path(prefix_, 0, 1)).value()) {}

void BundleWriter::note(const std::string& name, BundleDtype dtype,
                        const std::vector<int64_t>& shape, uint64_t bytes, uint32_t checksum) {
  Builder<EntryField> entry;
  entry.add_varint(EntryField::kDtype, static_cast<int>(dtype));
  entry.put_bytes(EntryField::kShape, formats::internal::encode_shape(shape));
  entry.add_varint(EntryField::kOffset, static_cast<int64_t>(offset_));
  entry.add_varint(EntryField::kSize, static_cast<int64_t>(bytes));
  entry.put_fixed(EntryField::kChecksum, mask_crc32c(checksum));
  offset_ += bytes;
  if (name.empty() || internal::is_slice_key(name) || !index_.emplace(name, entry.take()).second)
    throw invalid_argument(fmt::format("a checkpoint has one tensor '{}' at most", name));
}

void BundleWriter::add(const std::string& name, BundleDtype dtype,
                       const std::vector<int64_t>& shape, Bytes bytes) {
  data_->append(bytes).value();
  note(name, dtype, shape, bytes.size(), crc32c(bytes));
}

void BundleWriter::add_texts(const std::string& name, const std::vector<int64_t>& shape,
                             const std::vector<std::string>& texts) {
  std::string bytes, numbers;
  for (const std::string& text : texts) {
    formats::internal::append_varint(bytes, text.size());
    if (text.size() <= std::numeric_limits<uint32_t>::max()) {
      append_little_endian(numbers, static_cast<uint32_t>(text.size()));
    } else {
      append_little_endian(numbers, uint64_t{text.size()});
    }
  }
  const size_t of_lengths = bytes.size();
  uint32_t checksum = crc32c(bytes_of(numbers));
  append_little_endian(bytes, mask_crc32c(checksum));
  for (const std::string& text : texts) bytes += text;
  checksum = extend_crc32c(checksum, bytes_of(bytes).subspan(of_lengths));
  data_->append(bytes_of(bytes)).value();
  note(name, BundleDtype::kString, shape, bytes.size(), checksum);
}

void BundleWriter::end() {
  Builder<VersionField> version;
  version.put_varint(VersionField::kProducer, 1);
  Builder<HeaderField> header;
  header.put_varint(HeaderField::kShards, 1);
  header.put_bytes(HeaderField::kVersion, version.bytes());
  std::vector<internal::TableEntry> table = {{"", header.take()}};
  for (auto& [name, entry] : index_) table.emplace_back(name, std::move(entry));
  data_->commit().value();
  files_.write_atomically(index_path(prefix_), internal::write_sorted_table(table)).value();
}

}  // namespace muster::inline v0_1::tensorflow
