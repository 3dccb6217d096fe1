#include "muster/formats/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "muster/base/strings.h"
#include "muster/formats/internal/hints.h"
#include "muster/formats/internal/npy_header.h"
#include "muster/formats/internal/shape_text.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::shape_text;

constexpr std::string_view kMagic("\x93NUMPY", 6);
// Far above the size of a shape and a dtype; numpy itself stops at 10,000.
constexpr uint64_t kHeaderLimit = 1 << 20;
using internal::kCopyAgain;

// Whether the numbers of elements and of bytes fit 63 bits. An axis of size 0 does not excuse the
// others, because strides are products of all of them.
bool fits(const std::vector<int64_t>& shape, uint64_t item_bytes) {
  int64_t product = 1;
  for (const int64_t size : shape) {
    if (size < 0) return false;
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product)) return false;
  }
  int64_t bytes = 0;
  return item_bytes <= uint64_t{INT64_MAX} &&
         !__builtin_mul_overflow(product, static_cast<int64_t>(item_bytes), &bytes);
}

template <typename Word>
void swap_words(MutableBytes bytes) {
  for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof(Word));
    if constexpr (sizeof(Word) == 2) word = __builtin_bswap16(word);
    if constexpr (sizeof(Word) == 4) word = __builtin_bswap32(word);
    if constexpr (sizeof(Word) == 8) word = __builtin_bswap64(word);
    std::memcpy(bytes.data() + at, &word, sizeof(Word));
  }
}

void swap_bytes(MutableBytes bytes, uint64_t width) {
  if (width == 2) swap_words<uint16_t>(bytes);
  if (width == 4) swap_words<uint32_t>(bytes);
  if (width == 8) swap_words<uint64_t>(bytes);
}

// The bytes that are swapped together: half of a complex number, or one character of a text.
uint64_t number_bytes(const NpyHeader& header) {
  if (header.kind == NpyKind::kComplex) return header.item_bytes / 2;
  return header.kind == NpyKind::kUnicode ? 4 : header.item_bytes;
}

template <size_t kWidth>
void copy_strided(std::byte* to, const std::byte* from, size_t count, size_t to_step,
                  size_t from_step, size_t width) {
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step, kWidth == 0 ? width : kWidth);
  }
}

// Copies from the order in which the first axis runs fastest to the order in which the last one
// does.
void to_row_major(const NpyHeader& header, Bytes from, MutableBytes to) {
  const size_t rank = header.shape.size();
  const size_t width = header.item_bytes;
  const auto copy = width == 1   ? copy_strided<1>
                    : width == 2 ? copy_strided<2>
                    : width == 4 ? copy_strided<4>
                    : width == 8 ? copy_strided<8>
                                 : copy_strided<0>;
  std::vector<size_t> from_steps(rank), to_steps(rank);
  for (size_t axis = 0, step = width; axis < rank; ++axis) {
    from_steps[axis] = step;
    step *= static_cast<size_t>(header.shape[axis]);
  }
  for (size_t axis = rank, step = width; axis-- > 0;) {
    to_steps[axis] = step;
    step *= static_cast<size_t>(header.shape[axis]);
  }
  // It copies tiles over the first and the last axis, so that reads and writes both stay near each
  // other in memory.
  constexpr size_t kTile = 32;
  const auto rows = static_cast<size_t>(header.shape.front());
  const auto columns = static_cast<size_t>(header.shape.back());
  std::vector<int64_t> index(rank, 0);  // of the axes between them
  size_t from_at = 0, to_at = 0;
  while (true) {
    for (size_t row = 0; row < rows; row += kTile) {
      for (size_t column = 0; column < columns; column += kTile) {
        for (size_t r = row; r < std::min(row + kTile, rows); ++r) {
          copy(to.data() + to_at + r * to_steps.front() + column * to_steps.back(),
               from.data() + from_at + r * from_steps.front() + column * from_steps.back(),
               std::min(kTile, columns - column), to_steps.back(), from_steps.back(), width);
        }
      }
    }
    size_t axis = 1;
    for (; axis + 1 < rank; ++axis) {
      from_at += from_steps[axis];
      to_at += to_steps[axis];
      if (++index[axis] < header.shape[axis]) break;
      from_at -= from_steps[axis] * static_cast<size_t>(header.shape[axis]);
      to_at -= to_steps[axis] * static_cast<size_t>(header.shape[axis]);
      index[axis] = 0;
    }
    if (axis + 1 >= rank) return;
  }
}

bool append_utf8(std::string& out, uint32_t code) {
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | (code >> 6));
    add(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    if (code >= 0xd800 && code < 0xe000) return false;
    add(0xe0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3f));
    add(0x80 | (code & 0x3f));
  } else {
    if (code > 0x10ffff) return false;
    add(0xf0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3f));
    add(0x80 | ((code >> 6) & 0x3f));
    add(0x80 | (code & 0x3f));
  }
  return true;
}

std::string descr_of(const NpyHeader& header) {
  const char order = number_bytes(header) == 1 || header.kind == NpyKind::kBytes ? '|' : '<';
  const uint64_t width =
      header.kind == NpyKind::kUnicode ? header.item_bytes / 4 : header.item_bytes;
  constexpr std::string_view kLetters = "biufcSU";
  return std::string{order, kLetters[static_cast<size_t>(header.kind)]} + std::to_string(width);
}

}  // namespace

int64_t NpyHeader::size() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::string NpyHeader::dtype() const {
  switch (kind) {
    case NpyKind::kBool:
      return "bool";
    case NpyKind::kInt:
      return "int" + std::to_string(8 * item_bytes);
    case NpyKind::kUint:
      return "uint" + std::to_string(8 * item_bytes);
    case NpyKind::kFloat:
      return "float" + std::to_string(8 * item_bytes);
    case NpyKind::kComplex:
      return "complex" + std::to_string(8 * item_bytes);
    case NpyKind::kBytes:
      return "S" + std::to_string(item_bytes);
    case NpyKind::kUnicode:
      return "U" + std::to_string(item_bytes / 4);
  }
  return "unknown";
}

Result<NpyHeader> read_npy_header(FileReader& file) {
  const std::string name = "'" + file.name() + "'";
  Result<uint64_t> size = file.size();
  if (!size.ok()) return size.error();
  std::string start(std::min<uint64_t>(size.value(), 12), '\0');
  Status read = file.read_exactly_at(0, std::as_writable_bytes(std::span(start)));
  if (!read.ok()) return read.error();
  if (start.size() < 10 || !start.starts_with(kMagic)) {
    return corrupt(name + " is no .npy file: it " +
                       (start.empty() ? "is empty" : "starts with " + hex_bytes(bytes_of(start))) +
                       ", expected 93 4e 55 4d 50 59 and a version",
                   "check that this is the right file; write it with numpy.save");
  }
  const auto major = static_cast<uint8_t>(start[6]);
  const auto minor = static_cast<uint8_t>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return corrupt(name + " has version " + std::to_string(major) + "." + std::to_string(minor) +
                       " of the .npy format; known are 1.0, 2.0 and 3.0",
                   "save the array again with numpy.save");
  }
  const uint64_t prefix = major == 1 ? 10 : 12;
  uint64_t length = load_little_endian<uint16_t>(start.data() + 8);
  if (major > 1 && start.size() == 12) length = load_little_endian<uint32_t>(start.data() + 8);
  if (start.size() < prefix || size.value() - prefix < length) {
    return corrupt(name + " is cut short inside its header: " + std::to_string(length) +
                       " bytes expected from byte " + std::to_string(prefix) +
                       " on, the file has " + std::to_string(size.value()),
                   kCopyAgain);
  }
  if (length > kHeaderLimit) {
    return corrupt(name + " says that its header has " + std::to_string(length) +
                       " bytes; none has more than " + std::to_string(kHeaderLimit),
                   kCopyAgain);
  }
  std::string text(length, '\0');
  read = file.read_exactly_at(prefix, std::as_writable_bytes(std::span(text)));
  if (!read.ok()) return read.error();
  Result<NpyHeader> parsed = internal::parse_npy_header(text, name);
  if (!parsed.ok()) return parsed;
  NpyHeader& header = parsed.value();
  header.data_offset = prefix + length;
  if (!fits(header.shape, header.item_bytes)) {
    return corrupt(name + " says that it is " + header.dtype() + shape_text(header.shape) +
                       ": more elements than can be",
                   kCopyAgain);
  }
  if (header.item_bytes == 0 && header.size() > 0) {
    return corrupt(name + " has strings of width 0", "save the array again with numpy.save");
  }
  const uint64_t there = size.value() - header.data_offset;
  if (there != header.data_bytes()) {
    const bool is_short = there < header.data_bytes();
    return corrupt(
        name + (is_short ? " is cut short: " : " is too long: ") +
            std::to_string(header.data_bytes()) + " bytes of data expected for " + header.dtype() +
            shape_text(header.shape) + ", " + std::to_string(there) + " found",
        is_short ? kCopyAgain : "save several arrays with numpy.savez, not into one .npy file");
  }
  return parsed;
}

Status read_npy_data(FileReader& file, const NpyHeader& header, MutableBytes out) {
  if (out.size() != header.data_bytes()) {
    return invalid_argument("'" + file.name() + "' holds " + std::to_string(header.data_bytes()) +
                            " bytes of data; room for " + std::to_string(out.size()) +
                            " was given");
  }
  if (out.empty()) return {};
  if (header.fortran_order && header.shape.size() > 1) {
    std::vector<std::byte> data(out.size());
    Status read = file.read_exactly_at(header.data_offset, data);
    if (!read.ok()) return read;
    to_row_major(header, data, out);
  } else {
    Status read = file.read_exactly_at(header.data_offset, out);
    if (!read.ok()) return read;
  }
  if (header.big_endian) swap_bytes(out, number_bytes(header));
  if (header.kind == NpyKind::kBool) {
    // To read a bool that is neither 0 nor 1 is undefined behaviour.
    for (std::byte& byte : out) byte = std::byte{byte != std::byte{0}};
  }
  return {};
}

Result<NpyTexts> read_npy_texts(FileReader& file, const NpyHeader& header) {
  std::string data(header.data_bytes(), '\0');
  Status read = read_npy_data(file, header, std::as_writable_bytes(std::span(data)));
  if (!read.ok()) return read.error();
  NpyTexts texts;
  texts.offsets.reserve(static_cast<size_t>(header.size()) + 1);
  for (size_t at = 0; at < data.size(); at += header.item_bytes) {
    const std::string_view item(data.data() + at, header.item_bytes);
    if (header.kind == NpyKind::kBytes) {
      texts.bytes += item.substr(0, item.find_last_not_of('\0') + 1);
    } else {
      size_t length = item.find_last_not_of('\0') + 1;
      length = (length + 3) / 4 * 4;
      for (size_t i = 0; i < length; i += 4) {
        const auto code = load_little_endian<uint32_t>(item.data() + i);
        if (!append_utf8(texts.bytes, code)) {
          return corrupt("'" + file.name() + "': element " +
                             std::to_string(at / header.item_bytes) + " has the character " +
                             std::to_string(code) + ", which Unicode does not have",
                         kCopyAgain);
        }
      }
    }
    texts.offsets.push_back(static_cast<int64_t>(texts.bytes.size()));
  }
  return texts;
}

Status write_npy(ByteSink& sink, const NpyHeader& header, Bytes data) {
  if (!fits(header.shape, header.item_bytes) || data.size() != header.data_bytes()) {
    return invalid_argument("an array of " + header.dtype() + shape_text(header.shape) +
                            " is not the " + std::to_string(data.size()) + " bytes given");
  }
  std::vector<std::string> sizes;
  for (const int64_t size : header.shape) sizes.push_back(std::to_string(size));
  std::string text = "{'descr': '" + descr_of(header) + "', 'fortran_order': False, 'shape': (" +
                     join(sizes, ", ") + (sizes.size() == 1 ? ",), }" : "), }");
  const bool is_long = text.size() + 64 > UINT16_MAX;
  const size_t prefix = is_long ? 12 : 10;
  text.append((64 - (prefix + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string start(kMagic);
  start += is_long ? '\x02' : '\x01';
  start += '\0';
  if (is_long) {
    append_little_endian(start, static_cast<uint32_t>(text.size()));
  } else {
    append_little_endian(start, static_cast<uint16_t>(text.size()));
  }
  Status wrote = sink.append(bytes_of(start + text));
  return wrote.ok() ? sink.append(data) : wrote;
}

}  // namespace muster::inline v0_1::formats
