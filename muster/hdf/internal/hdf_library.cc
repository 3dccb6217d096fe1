#include "muster/hdf/internal/hdf_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/parse_limits.h"
#include "muster/hdf/internal/hdf_driver.h"

#define H5_USE_110_API
#include <hdf5.h>

namespace muster::inline v0_1::hdf::internal {
namespace {

constexpr int kMostDepth = 32;                        // groups in groups
constexpr uint64_t kMostChunk = uint64_t{256} << 20;  // bytes
constexpr uint64_t kMostTexts = uint64_t{64} << 20;   // bytes of the attributes of a file
constexpr auto kWriteAgain =
    "load it in Python and write its arrays again, by h5py without options or as .safetensors";

// The attributes of Keras that hold texts. Long lists are in several of them: "weight_names0".
constexpr std::array<const char*, 4> kTexts = {"layer_names", "weight_names", "name", "dtype"};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw invalid_argument(fmt::format("not supported: '{}' {}", path, what), kWriteAgain);
}
[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw corrupt(fmt::format("'{}' {}", path, what),
                "the file is damaged or cut short: take a copy from its source");
}

// The texts of an attribute; none where it holds no texts, as h5py writes an empty list.
std::vector<std::string> read_texts(hid_t attribute, const std::string& path, uint64_t most) {
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  if (!type.good() || !space.good()) damaged(path, "has an attribute that cannot be read");
  if (H5Tget_class(type.id()) != H5T_STRING) return {};
  const hssize_t count = H5Sget_simple_extent_npoints(space.id());
  const size_t size = H5Tget_size(type.id());
  if (count < 0 || size == 0) damaged(path, "has an attribute without a length");
  const auto texts = static_cast<uint64_t>(count);
  if (texts > most / size) damaged(path, "has an attribute that is longer than the file can hold");
  std::vector<std::string> read;
  if (H5Tis_variable_str(type.id()) > 0) {
    std::vector<char*> pointers(texts, nullptr);
    if (H5Aread(attribute, type.id(), pointers.data()) < 0)
      damaged(path, "has an attribute that cannot be read");
    for (const char* text : pointers) read.emplace_back(text == nullptr ? "" : text);
    H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, pointers.data());
    return read;
  }
  std::string bytes(texts * size, '\0');
  if (H5Aread(attribute, type.id(), bytes.data()) < 0)
    damaged(path, "has an attribute that cannot be read");
  for (uint64_t i = 0; i < texts; ++i) {
    const char* text = bytes.data() + i * size;
    read.emplace_back(text, strnlen(text, size));
  }
  return read;
}

// IEEE 754's numbers, and those of bfloat16.
HdfDtype float_of(hid_t type) {
  struct Row {
    size_t bytes, exponent_at, exponent_bits, mantissa_bits, bias;
    HdfDtype dtype;
  };
  static constexpr std::array<Row, 4> kRows = {{{2, 10, 5, 10, 15, HdfDtype::kFloat16},
                                                {2, 7, 8, 7, 127, HdfDtype::kBfloat16},
                                                {4, 23, 8, 23, 127, HdfDtype::kFloat32},
                                                {8, 52, 11, 52, 1023, HdfDtype::kFloat64}}};
  size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  const size_t bytes = H5Tget_size(type);
  if (H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits) < 0 ||
      H5Tget_norm(type) != H5T_NORM_IMPLIED || H5Tget_precision(type) != 8 * bytes)
    return HdfDtype::kOther;
  for (const Row& row : kRows) {
    if (row.bytes == bytes && sign == 8 * bytes - 1 && exponent == row.exponent_at &&
        exponent_bits == row.exponent_bits && mantissa == 0 && mantissa_bits == row.mantissa_bits &&
        H5Tget_ebias(type) == row.bias)
      return row.dtype;
  }
  return HdfDtype::kOther;
}

HdfDtype integer_of(hid_t type) {
  const size_t bytes = H5Tget_size(type);
  if (H5Tget_precision(type) != 8 * bytes) return HdfDtype::kOther;
  const H5T_sign_t sign = H5Tget_sign(type);
  if (sign == H5T_SGN_ERROR) return HdfDtype::kOther;
  const bool negative = sign == H5T_SGN_2;
  switch (bytes) {
    case 1:
      return negative ? HdfDtype::kInt8 : HdfDtype::kUint8;
    case 2:
      return negative ? HdfDtype::kInt16 : HdfDtype::kUint16;
    case 4:
      return negative ? HdfDtype::kInt32 : HdfDtype::kUint32;
    case 8:
      return negative ? HdfDtype::kInt64 : HdfDtype::kUint64;
    default:
      return HdfDtype::kOther;
  }
}

// h5py's bool: FALSE is 0, and TRUE is 1.
bool is_bool(hid_t type) {
  if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  int8_t no = -1, yes = -1;
  return H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0 &&
         no == 0 && yes == 1;
}

HdfDtype dtype_of(hid_t type, bool opaque_is_bfloat16) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return float_of(type);
    case H5T_INTEGER:
      return integer_of(type);
    case H5T_ENUM:
      return is_bool(type) ? HdfDtype::kBool : HdfDtype::kOther;
    case H5T_OPAQUE:
      return opaque_is_bfloat16 && H5Tget_size(type) == 2 ? HdfDtype::kBfloat16 : HdfDtype::kOther;
    default:
      return HdfDtype::kOther;
  }
}

// Lists a file, group by group.
class Lister {
 public:
  explicit Lister(uint64_t file_bytes) : file_bytes_(file_bytes) {}

  HdfListing list(hid_t file) {
    const Handle options(H5Fget_create_plist(file), H5Pclose);
    hsize_t user_block = 0;
    if (H5Pget_userblock(options.id(), &user_block) < 0 || user_block != 0)
      refuse("/", fmt::format("has {} bytes of a user block in front", user_block));
    const Handle root(H5Oopen(file, "/", H5P_DEFAULT), H5Oclose);
    if (!root.good()) damaged("/", "cannot be opened");
    visit(root.id(), "", 0);
    std::ranges::sort(listing_.arrays, {}, &HdfArray::path);
    return std::move(listing_);
  }

 private:
  struct Links {
    std::vector<std::pair<std::string, H5L_type_t>> all{};
    uint64_t most = 0;
  };

  static herr_t add_link(hid_t /*group*/, const char* name, const H5L_info_t* info, void* to) {
    auto& links = *static_cast<Links*>(to);
    if (links.all.size() >= links.most) return -1;
    links.all.emplace_back(name, info->type);
    return 0;
  }

  void visit(hid_t object, const std::string& path, int depth) {
    H5O_info_t info;
    if (H5Oget_info(object, &info) < 0) damaged(shown(path), "cannot be opened");
    if (!visited_.insert(info.addr).second)
      refuse(shown(path), "is an object with two names, or a group in itself");
    if (info.type == H5O_TYPE_DATASET) {
      add_array(object, path);
    } else if (info.type == H5O_TYPE_GROUP) {
      visit_group(object, path, depth);
    }
  }

  void visit_group(hid_t group, const std::string& path, int depth) {
    if (depth >= kMostDepth)
      refuse(shown(path), fmt::format("lies in more than {} groups", kMostDepth));
    listing_.groups.push_back(path);
    add_texts(group, path);
    // A link takes bytes of the file.
    Links links{.most = file_bytes_};
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, add_link, &links) < 0)
      damaged(shown(path), "has links that cannot be read");
    for (const auto& [name, type] : links.all) {
      const std::string below = path.empty() ? name : path + "/" + name;
      if (type == H5L_TYPE_SOFT) refuse(below, "is a soft link");
      if (type == H5L_TYPE_EXTERNAL) refuse(below, "is a link to another file");
      if (type != H5L_TYPE_HARD) refuse(below, "is a link of an unknown kind");
      const Handle object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose);
      if (!object.good()) damaged(below, "cannot be opened");
      visit(object.id(), below, depth + 1);
    }
  }

  static std::string shown(const std::string& path) { return path.empty() ? "/" : path; }

  void add_texts(hid_t object, const std::string& path) {
    for (const char* name : kTexts) {
      std::vector<std::string> all;
      if (!add_text(object, path, name, all)) {
        // In pieces, as Keras writes what is longer than an attribute may be.
        for (int i = 0; add_text(object, path, fmt::format("{}{}", name, i), all); ++i) {
        }
        if (all.empty()) continue;
      }
      listing_.texts[path][name] = std::move(all);
    }
  }

  bool add_text(hid_t object, const std::string& path, const std::string& name,
                std::vector<std::string>& all) {
    if (H5Aexists(object, name.c_str()) <= 0) return false;
    const Handle attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose);
    if (!attribute.good()) damaged(shown(path), "has an attribute that cannot be opened");
    const uint64_t most = std::min(kMostTexts, kMostUnpacked * file_bytes_);
    for (std::string& text : read_texts(attribute.id(), shown(path), most)) {
      texts_ += text.size() + sizeof(std::string);
      if (texts_ > most) damaged(shown(path), "has attributes that are longer than they may be");
      all.push_back(std::move(text));
    }
    return true;
  }

  void add_array(hid_t dataset, const std::string& path) {
    HdfArray array{.path = path};
    const Handle type(H5Dget_type(dataset), H5Tclose);
    const Handle space(H5Dget_space(dataset), H5Sclose);
    const Handle options(H5Dget_create_plist(dataset), H5Pclose);
    if (!type.good() || !space.good() || !options.good()) damaged(path, "cannot be opened");
    add_texts(dataset, path);
    const auto said = listing_.texts.find(path);
    const bool is_bfloat16 = said != listing_.texts.end() && said->second.contains("dtype") &&
                             said->second.at("dtype") == std::vector<std::string>{"bfloat16"};
    array.dtype = dtype_of(type.id(), is_bfloat16);
    array.big_endian = H5Tget_order(type.id()) == H5T_ORDER_BE;
    add_shape(space.id(), array);
    check_storage(options.id(), path);
    if (array.dtype != HdfDtype::kOther) place(dataset, options.id(), array);
    listing_.arrays.push_back(std::move(array));
  }

  static void add_shape(hid_t space, HdfArray& array) {
    const int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0 || rank > H5S_MAX_RANK) damaged(array.path, "has no shape");
    std::array<hsize_t, H5S_MAX_RANK> sizes{};
    if (H5Sget_simple_extent_dims(space, sizes.data(), nullptr) != rank)
      damaged(array.path, "has no shape");
    uint64_t count = H5Sget_simple_extent_type(space) == H5S_NULL ? 0 : 1;
    if (count == 0) array.shape.push_back(0);
    for (int axis = 0; axis < rank; ++axis) {
      const hsize_t size = sizes.at(static_cast<size_t>(axis));
      if (size > INT64_MAX || __builtin_mul_overflow(count, size, &count))
        damaged(array.path, "is larger than numbers of 64 bits say");
      array.shape.push_back(static_cast<int64_t>(size));
    }
    if (__builtin_mul_overflow(count, element_bytes(array.dtype), &array.bytes) ||
        array.bytes > INT64_MAX)
      damaged(array.path, "is larger than numbers of 64 bits say");
  }

  static void check_storage(hid_t options, const std::string& path) {
    if (H5Pget_layout(options) == H5D_VIRTUAL) refuse(path, "is a virtual array");
    if (H5Pget_external_count(options) != 0) refuse(path, "has its numbers in another file");
    const int filters = H5Pget_nfilters(options);
    if (filters < 0) damaged(path, "has filters that cannot be read");
    for (int i = 0; i < filters; ++i) {
      unsigned flags = 0;
      size_t values = 0;
      const H5Z_filter_t filter = H5Pget_filter2(options, static_cast<unsigned>(i), &flags, &values,
                                                 nullptr, 0, nullptr, nullptr);
      if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE &&
          filter != H5Z_FILTER_FLETCHER32)
        refuse(path, fmt::format("is packed by filter {}, not by gzip", static_cast<int>(filter)));
    }
  }

  // Says where the numbers lie, or looks that they can be unpacked.
  void place(hid_t dataset, hid_t options, HdfArray& array) {
    const H5D_layout_t layout = H5Pget_layout(options);
    if (layout == H5D_CONTIGUOUS && array.bytes > 0) {
      const haddr_t offset = H5Dget_offset(dataset);
      if (offset != HADDR_UNDEF) {
        if (offset > file_bytes_ || array.bytes > file_bytes_ - offset)
          damaged(array.path, fmt::format("has its {} bytes outside of the file, from byte {} on",
                                          array.bytes, offset));
        array.offset = offset;
        return;
      }
    }
    // Numbers that nobody wrote take no bytes: a short file may announce any size.
    if (array.bytes > kMostUnpacked * file_bytes_)
      refuse(array.path,
             fmt::format("announces {} bytes in a file of {}", array.bytes, file_bytes_));
    if (layout != H5D_CHUNKED) return;
    std::array<hsize_t, H5S_MAX_RANK + 1> sizes{};
    const int rank = H5Pget_chunk(options, H5S_MAX_RANK, sizes.data());
    if (rank < 0) damaged(array.path, "has chunks without a shape");
    uint64_t bytes = element_bytes(array.dtype);
    for (int axis = 0; axis < std::min(rank, H5S_MAX_RANK); ++axis) {
      if (__builtin_mul_overflow(bytes, sizes.at(static_cast<size_t>(axis)), &bytes) ||
          bytes > kMostChunk)
        refuse(array.path, fmt::format("has chunks of more than {} bytes", kMostChunk));
    }
  }

  const uint64_t file_bytes_;
  HdfListing listing_;
  std::set<haddr_t> visited_;
  uint64_t texts_ = 0;  // bytes of attributes
};

constexpr auto kCut = "the file is damaged or cut short: take a copy from its source";

}  // namespace

void list_hdf(ConfinedFile& file) {
  const Handle opened = open_confined(file);
  if (!opened.good()) throw corrupt("it is not a HDF5 file, or its head is damaged", kCut);
  const std::string encoded = encode_listing(Lister(file.bytes()).list(opened.id()));
  file.answer(bytes_of(encoded));
}

void unpack_hdf(ConfinedFile& file, const HdfArray& array) {
  const Handle opened = open_confined(file);
  const Handle dataset(opened.good() ? H5Dopen2(opened.id(), array.path.c_str(), H5P_DEFAULT) : -1,
                       H5Dclose);
  if (!dataset.good()) damaged(array.path, "cannot be opened");
  const Handle theirs(H5Dget_type(dataset.id()), H5Tclose);
  const Handle type(H5Tcopy(theirs.id()), H5Tclose);
  // What has one byte, or is opaque, has no order.
  if (array.big_endian && H5Tset_order(type.id(), H5T_ORDER_LE) < 0)
    damaged(array.path, "cannot be brought into the order of this machine's bytes");
  std::string numbers(array.bytes, '\0');
  if (H5Dread(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) < 0)
    damaged(array.path, "cannot be unpacked");
  file.answer(bytes_of(numbers));
}

}  // namespace muster::inline v0_1::hdf::internal
