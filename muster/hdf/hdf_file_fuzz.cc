// Files of Keras out of anything: what libhdf5 reads in a confined process, the names that are made
// of it, and the arrays. Each input is a file.
#define H5_USE_110_API
#include <hdf5.h>

#include <cstring>
#include <memory>

#include "muster/base/error.h"
#include "muster/hdf/hdf_file.h"
#include "muster/hdf/keras_names.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace {

using namespace muster;  // NOLINT(google-build-using-namespace)

constexpr uint64_t kMostRead = uint64_t{1} << 20;  // bytes of an array
constexpr int kMostUnpacks = 2;                    // each takes a process

// A file in memory, written by libhdf5.
class Seed {
 public:
  // libhdf5 has each file open once, by its name.
  explicit Seed(const char* name) : access_(H5Pcreate(H5P_FILE_ACCESS)) {
    H5Pset_fapl_core(access_, 4096, /*write to disk=*/false);
    file_ = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access_);
  }
  Seed(const Seed&) = delete;
  Seed& operator=(const Seed&) = delete;
  ~Seed() {
    H5Fclose(file_);
    H5Pclose(access_);
  }

  // Keras 3 makes its groups of weights so.
  void group(const char* path, bool ordered) {
    const hid_t options = H5Pcreate(H5P_GROUP_CREATE);
    if (ordered) H5Pset_link_creation_order(options, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Gclose(H5Gcreate2(file_, path, H5P_DEFAULT, options, H5P_DEFAULT));
    H5Pclose(options);
  }
  void array(const char* path, hsize_t rows, bool packed = false) {
    const std::vector<float> numbers(rows * 3, 1.5F);
    const hsize_t sizes[] = {rows, 3};
    const hid_t space = H5Screate_simple(2, sizes, nullptr),
                options = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_obj_track_times(options, false);  // the same bytes every time
    if (packed) {
      const hsize_t chunk[] = {2, 3};
      H5Pset_chunk(options, 2, chunk);
      H5Pset_shuffle(options);
      H5Pset_deflate(options, 6);
      H5Pset_fletcher32(options);
    }
    const hid_t made =
        H5Dcreate2(file_, path, H5T_IEEE_F32LE, space, H5P_DEFAULT, options, H5P_DEFAULT);
    H5Dwrite(made, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data());
    H5Dclose(made);
    H5Pclose(options);
    H5Sclose(space);
  }
  // Texts of a length that varies, and of 16 bytes.
  void texts(const char* path, const char* name, const std::vector<const char*>& values,
             bool varying) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    const hsize_t size = values.size();
    const hid_t space = H5Screate_simple(1, &size, nullptr);
    std::string fixed(16 * values.size(), '\0');
    for (size_t i = 0; i < values.size(); ++i) fixed.replace(16 * i, strlen(values[i]), values[i]);
    H5Tset_size(type, varying ? H5T_VARIABLE : 16);
    const hid_t made =
        H5Acreate_by_name(file_, path, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(made, type, varying ? static_cast<const void*>(values.data()) : fixed.data());
    H5Aclose(made);
    H5Sclose(space);
    H5Tclose(type);
  }
  std::string bytes() const {
    H5Fflush(file_, H5F_SCOPE_GLOBAL);
    std::string image(static_cast<size_t>(H5Fget_file_image(file_, nullptr, 0)), '\0');
    H5Fget_file_image(file_, image.data(), image.size());
    return image;
  }

 private:
  hid_t access_, file_ = -1;
};

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  std::vector<std::string> made;
  Seed numbered("numbered");
  numbered.group("layers", false);
  numbered.group("layers/dense", false);
  numbered.group("layers/dense/vars", true);
  numbered.array("layers/dense/vars/0", 2);
  numbered.array("layers/dense/vars/1", 1);
  numbered.texts("layers/dense/vars", "name", {"first"}, true);
  made.push_back(numbered.bytes());
  Seed many("many");
  many.group("vars", true);
  // More links than fit into the group itself.
  for (int i = 0; i < 12; ++i) many.array(("vars/" + std::to_string(i)).c_str(), 1);
  made.push_back(many.bytes());
  Seed legacy("legacy");
  legacy.group("dense", false);
  legacy.array("dense/kernel:0", 2);
  legacy.texts(".", "layer_names", {"dense"}, false);
  legacy.texts("dense", "weight_names", {"kernel:0"}, false);
  made.push_back(legacy.bytes());
  Seed packed("packed");
  packed.array("packed", 7, true);
  made.push_back(packed.bytes());
  return made;
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  try {
    const auto file = fuzz::metered(parse_memory_limit(size), [&] {
      auto opened = std::make_unique<hdf::HdfFile>(memory_reader(bytes, "input"));
      (void)hdf::name_weights(opened->listing(), "", "input");
      return opened;
    });
    uint64_t placed = 0;
    int unpacks = 0;
    for (const hdf::HdfArray& array : file->listing().arrays) {
      if (array.offset) placed += array.bytes;
      if (array.bytes > kMostRead || (!array.offset && ++unpacks > kMostUnpacks)) continue;
      fuzz::metered(unpack_memory_limit(size), [&] {
        std::string numbers(array.bytes, '\0');
        try {
          file->read(array, std::as_writable_bytes(std::span(numbers)));
        } catch (const Error& error) {
          fuzz::require(error.kind() == ErrorKind::kCorrupt, "damage is Corrupt");
        }
      });
    }
    fuzz::require(placed <= size, "arrays are no larger than their file");
  } catch (const Error& error) {
    fuzz::require(
        error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kInvalidArgument,
        "what cannot be read is Corrupt, or not supported");
  }
  return 0;
}
