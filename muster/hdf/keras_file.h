// A file that Keras wrote: .h5, .weights.h5 or .keras. Thread safety: an open file may be shared.
#pragma once

#include <memory>
#include <string>

#include "muster/base/file_system.h"
#include "muster/hdf/hdf_file.h"
#include "muster/hdf/keras_names.h"

namespace muster::inline v0_1::hdf {

class KerasFile {
 public:
  // Opens it and names its weights; a .keras is held in memory. Throws NotFound, what HdfFile and
  // name_weights() throw, Corrupt for a damaged zip archive, and InvalidArgument for a .keras whose
  // weights are in several files.
  KerasFile(FileSystem& files, const std::string& path);

  const KerasNames& names() const { return names_; }
  const HdfFile& file() const { return *file_; }
  // Throws std::out_of_range for a name that is not there.
  const HdfArray& at(const std::string& name) const {
    return file_->listing().arrays[names_.places.at(name)];
  }

 private:
  std::unique_ptr<HdfFile> file_;
  KerasNames names_;
};

}  // namespace muster::inline v0_1::hdf
