// Gives libhdf5 the bytes of a confined file. Its own header stays in sources: a header of the
// house compiles without it. Thread safety: for the one thread of its process.
#pragma once

#include <cstdint>

#include "muster/hdf/internal/confined_child.h"

namespace muster::inline v0_1::hdf::internal {

// Closes what libhdf5 opened.
class Handle {
 public:
  using Id = int64_t;  // hid_t
  using Close = int (*)(Id);
  Handle(Id id, Close close) : id_(id), close_(close) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  bool good() const { return id_ >= 0; }
  Id id() const { return id_; }

 private:
  Id id_;
  Close close_;
};

// Opens the file for reading; there is one in a process. A Handle that is not good where libhdf5
// refuses it.
Handle open_confined(ConfinedFile& file);

}  // namespace muster::inline v0_1::hdf::internal
