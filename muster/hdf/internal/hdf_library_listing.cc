// The listing of a file on its way out of the process that made it.
#include <algorithm>
#include <bit>

#include "muster/hdf/internal/hdf_library.h"

namespace muster::inline v0_1::hdf::internal {
namespace {

void put(std::string& to, uint64_t number) { append_little_endian(to, number); }
void put(std::string& to, std::string_view text) {
  put(to, text.size());
  to += text;
}

// Reads what put() wrote; good() is false from the first thing on that is not so.
class Source {
 public:
  explicit Source(Bytes bytes) : bytes_(bytes) {}

  uint64_t number() {
    if (bytes_.size() < sizeof(uint64_t)) return fail();
    const auto value = load_little_endian<uint64_t>(bytes_.data());
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  std::string text() {
    const uint64_t length = number();
    if (length > bytes_.size()) return fail(), "";
    std::string text(text_of(bytes_.first(length)));
    bytes_ = bytes_.subspan(length);
    return text;
  }
  // How many follow; each takes bytes.
  uint64_t count() {
    const uint64_t value = number();
    return value <= bytes_.size() / sizeof(uint64_t) ? value : fail();
  }
  bool good() const { return good_; }
  bool at_end() const { return good_ && bytes_.empty(); }

 private:
  uint64_t fail() {
    good_ = false;
    bytes_ = {};
    return 0;
  }

  Bytes bytes_;
  bool good_ = true;
};

HdfArray read_array(Source& source, bool& good) {
  HdfArray array{.path = source.text()};
  const uint64_t dtype = source.number();
  good = good && dtype <= static_cast<uint64_t>(HdfDtype::kBool);
  array.dtype = good ? static_cast<HdfDtype>(dtype) : HdfDtype::kOther;
  array.big_endian = source.number() != 0;
  uint64_t bytes = element_bytes(array.dtype);
  for (uint64_t axes = source.count(); axes > 0 && good; --axes) {
    const uint64_t size = source.number();
    good = size <= INT64_MAX && !__builtin_mul_overflow(bytes, size, &bytes);
    array.shape.push_back(static_cast<int64_t>(size));
  }
  array.bytes = source.number();
  good = good && array.bytes == bytes && bytes <= INT64_MAX;
  const bool placed = source.number() != 0;
  const uint64_t offset = source.number();
  if (placed) array.offset = offset;
  return array;
}

}  // namespace

std::string encode_listing(const HdfListing& listing) {
  std::string to;
  put(to, listing.arrays.size());
  for (const HdfArray& array : listing.arrays) {
    put(to, array.path);
    put(to, static_cast<uint64_t>(array.dtype));
    put(to, uint64_t{array.big_endian});
    put(to, array.shape.size());
    for (const int64_t size : array.shape) put(to, static_cast<uint64_t>(size));
    put(to, array.bytes);
    put(to, uint64_t{array.offset.has_value()});
    put(to, array.offset.value_or(0));
  }
  put(to, listing.groups.size());
  for (const std::string& group : listing.groups) put(to, group);
  put(to, listing.texts.size());
  for (const auto& [path, texts] : listing.texts) {
    put(to, path);
    put(to, texts.size());
    for (const auto& [name, values] : texts) {
      put(to, name);
      put(to, values.size());
      for (const std::string& value : values) put(to, value);
    }
  }
  return to;
}

std::optional<HdfListing> decode_listing(Bytes bytes) {
  Source source(bytes);
  HdfListing listing;
  bool good = true;
  for (uint64_t arrays = source.count(); arrays > 0 && good && source.good(); --arrays)
    listing.arrays.push_back(read_array(source, good));
  for (uint64_t groups = source.count(); groups > 0 && source.good(); --groups)
    listing.groups.push_back(source.text());
  for (uint64_t paths = source.count(); paths > 0 && source.good(); --paths) {
    auto& texts = listing.texts[source.text()];
    for (uint64_t names = source.count(); names > 0 && source.good(); --names) {
      std::vector<std::string>& values = texts[source.text()];
      for (uint64_t count = source.count(); count > 0 && source.good(); --count)
        values.push_back(source.text());
    }
  }
  if (!good || !source.at_end()) return std::nullopt;
  return listing;
}

}  // namespace muster::inline v0_1::hdf::internal
