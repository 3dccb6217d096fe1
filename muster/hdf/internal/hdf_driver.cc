#include "muster/hdf/internal/hdf_driver.h"

#include <type_traits>

// Where later versions have newer forms of a function, they have this one's too.
#define H5_USE_110_API
#include <hdf5.h>
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace muster::inline v0_1::hdf::internal {
namespace {

static_assert(std::is_same_v<hid_t, Handle::Id> && std::is_same_v<herr_t, int>);

// The one file of this process.
ConfinedFile* opened = nullptr;

struct OpenFile {
  H5FD_t head;  // libhdf5's own, which it expects first
  haddr_t end;  // of what libhdf5 may address
};

OpenFile* of(H5FD_t* file) { return reinterpret_cast<OpenFile*>(file); }
const OpenFile* of(const H5FD_t* file) { return reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_file(const char* /*name*/, unsigned /*flags*/, hid_t /*access*/, haddr_t /*most*/) {
  return &(new OpenFile{})->head;
}
herr_t close_file(H5FD_t* file) {
  delete of(file);
  return 0;
}
herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_METADATA;
  return 0;
}
haddr_t end_of_addresses(const H5FD_t* file, H5FD_mem_t /*type*/) { return of(file)->end; }
herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  of(file)->end = end;
  return 0;
}
haddr_t end_of_file(const H5FD_t* /*file*/, H5FD_mem_t /*type*/) { return opened->bytes(); }
herr_t read(H5FD_t* /*file*/, H5FD_mem_t /*type*/, hid_t /*options*/, haddr_t from, size_t bytes,
            void* to) {
  return opened->read(from, {static_cast<std::byte*>(to), bytes}) ? 0 : -1;
}
herr_t write(H5FD_t* /*file*/, H5FD_mem_t /*type*/, hid_t /*options*/, haddr_t /*to*/,
             size_t /*bytes*/, const void* /*from*/) {
  return -1;
}

// Members by name: versions of libhdf5 have them in other orders.
H5FD_class_t driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION
  driver.version = H5FD_CLASS_VERSION;
  driver.value = 600;  // of those that are free for programs
#endif
  driver.name = "muster";
  driver.maxaddr = haddr_t{1} << 62;
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.open = open_file;
  driver.close = close_file;
  driver.query = query;
  driver.get_eoa = end_of_addresses;
  driver.set_eoa = set_end_of_addresses;
  driver.get_eof = end_of_file;
  driver.read = read;
  driver.write = write;
  const H5FD_mem_t map[H5FD_MEM_NTYPES] = H5FD_FLMAP_SINGLE;
  for (int i = 0; i < H5FD_MEM_NTYPES; ++i) driver.fl_map[i] = map[i];
  return driver;
}

}  // namespace

Handle open_confined(ConfinedFile& file) {
  opened = &file;
  // libhdf5 says nothing by itself, and loads no filters of others.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
  static const H5FD_class_t kDriver = driver();
  const hid_t known = H5FDregister(&kDriver);
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (known < 0 || H5Pset_driver(access.id(), known, nullptr) < 0) return {-1, H5Fclose};
  return {H5Fopen("file", H5F_ACC_RDONLY, access.id()), H5Fclose};
}

}  // namespace muster::inline v0_1::hdf::internal
