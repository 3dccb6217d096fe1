#include "muster/hdf/hdf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/parse_limits.h"
#include "muster/hdf/internal/confined_child.h"
#include "muster/hdf/internal/hdf_library.h"

namespace muster::inline v0_1::hdf {
namespace {

struct DtypeRow {
  std::string_view name;
  uint64_t bytes;
};
// In the order of HdfDtype.
constexpr std::array<DtypeRow, 14> kDtypes = {{{"other", 0},
                                               {"float16", 2},
                                               {"bfloat16", 2},
                                               {"float32", 4},
                                               {"float64", 8},
                                               {"int8", 1},
                                               {"int16", 2},
                                               {"int32", 4},
                                               {"int64", 8},
                                               {"uint8", 1},
                                               {"uint16", 2},
                                               {"uint32", 4},
                                               {"uint64", 8},
                                               {"bool", 1}}};

// What a listing takes at most: bytes however short the file is, and for each byte of it. With what
// is made of them, this is below parse_memory_limit().
constexpr uint64_t kListingBytes = uint64_t{64} << 10;
constexpr uint64_t kListingBytesPerByte = 4;
// A file of 10,000 arrays takes less than one.
constexpr int kListingSeconds = 4;
// Deflate unpacks several times as many bytes in a second.
constexpr uint64_t kUnpackedPerSecond = uint64_t{64} << 20;

constexpr auto kCopyAgain = "the file is damaged or cut short: take a copy from its source";

// What lies in the file as it is lies there once, so that a short file is not a long one. Throws
// for what a listing may not say, whoever made it.
void check_places(const HdfListing& listing, uint64_t file_bytes, const std::string& name) {
  std::vector<const HdfArray*> placed;
  for (const HdfArray& array : listing.arrays) {
    if (array.offset) placed.push_back(&array);
    const uint64_t most = array.offset ? file_bytes : kMostUnpacked * file_bytes;
    if (array.bytes <= most &&
        array.offset.value_or(0) <= file_bytes - (array.offset ? array.bytes : 0))
      continue;
    throw corrupt(fmt::format("'{}': '{}' lies outside of the file", name, array.path), kCopyAgain);
  }
  std::ranges::sort(placed, {}, [](const HdfArray* array) { return *array->offset; });
  for (size_t i = 1; i < placed.size(); ++i) {
    const HdfArray& before = *placed[i - 1];
    if (*before.offset + before.bytes <= *placed[i]->offset) continue;
    throw corrupt(
        fmt::format("'{}': the arrays '{}' and '{}' overlap", name, before.path, placed[i]->path),
        kCopyAgain);
  }
}

// Numbers of others in the order of this machine's bytes, and bools that are 0 or 1.
void bring_home(const HdfArray& array, bool swap, MutableBytes bytes) {
  if (array.dtype == HdfDtype::kBool) {
    for (std::byte& byte : bytes) byte = std::byte{byte != std::byte{0}};
  }
  const uint64_t each = element_bytes(array.dtype);
  if (!swap || each < 2) return;
  for (size_t begin = 0; begin + each <= bytes.size(); begin += each)
    std::ranges::reverse(bytes.subspan(begin, each));
}

}  // namespace

std::string_view describe(HdfDtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).name; }
uint64_t element_bytes(HdfDtype dtype) { return kDtypes.at(static_cast<size_t>(dtype)).bytes; }

HdfFile::HdfFile(std::shared_ptr<FileReader> file) : file_(std::move(file)) {
  const uint64_t bytes = file_->size().value();
  const std::string answer =
      internal::run_confined(*file_,
                             {.answer_bytes = kListingBytes + kListingBytesPerByte * bytes,
                              .processor_seconds = kListingSeconds},
                             internal::list_hdf);
  auto listing = internal::decode_listing(bytes_of(answer));
  if (!listing) throw corrupt(fmt::format("'{}' cannot be listed", name()), kCopyAgain);
  listing_ = std::move(*listing);
  check_places(listing_, bytes, name());
}

void HdfFile::read(const HdfArray& array, MutableBytes out) const { read_range(array, 0, out); }

void HdfFile::read_range(const HdfArray& array, uint64_t begin, MutableBytes out) const {
  if (out.empty()) return;
  if (array.offset) {
    if (const Status read = file_->read_exactly_at(*array.offset + begin, out); !read.ok())
      throw read.error();
    bring_home(array, array.big_endian, out);
    return;
  }
  const std::string numbers = unpack(array);
  std::ranges::copy(bytes_of(numbers).subspan(begin, out.size()), out.begin());
  bring_home(array, /*swap=*/false, out);
}

std::string HdfFile::unpack(const HdfArray& array) const {
  internal::ConfinedLimits limits{.answer_bytes = array.bytes};
  limits.memory_bytes += 2 * array.bytes;
  limits.processor_seconds += static_cast<int>(array.bytes / kUnpackedPerSecond);
  std::string numbers = internal::run_confined(
      *file_, limits, [&](internal::ConfinedFile& file) { internal::unpack_hdf(file, array); });
  if (numbers.size() != array.bytes)
    throw corrupt(fmt::format("'{}': '{}' has {} bytes unpacked, not {}", name(), array.path,
                              numbers.size(), array.bytes),
                  kCopyAgain);
  return numbers;
}

}  // namespace muster::inline v0_1::hdf
