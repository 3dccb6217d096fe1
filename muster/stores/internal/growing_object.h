// An object that grows: each flush replaces it by itself and the appended bytes. Thread safety: as
// FileWriter.
#pragma once

#include <memory>
#include <string>

#include "muster/base/file_system.h"
#include "muster/stores/internal/transfers.h"

namespace muster::inline v0_1::stores::internal {

class GrowingObject : public FileWriter {
 public:
  // Continues `info`; `transfers` owns `service`. For a small object `content` holds the bytes; for
  // a large one it is empty.
  GrowingObject(std::shared_ptr<Transfers> transfers, ObjectService& service, ObjectName object,
                ObjectInfo info, std::string content);

  Status append(Bytes bytes) override;
  Status flush() override;
  Status sync() override { return flush(); }
  Status close() override;

  // Objects up to this size are held in memory and sent anew as a whole, in bytes: the service
  // joins no smaller ones.
  static constexpr uint64_t kSmall = uint64_t{5} << 20;

 private:
  // Finds out whether a flush that failed was done anyway.
  Status look_again();

  const std::shared_ptr<Transfers> transfers_;
  ObjectService& service_;
  const ObjectName object_;
  ObjectInfo base_;      // the part in the store
  std::string content_;  // all of it while it is small; after that the part that is not sent yet
  uint64_t unsent_ = 0;  // bytes at the end of content_
  // How many of them went with a flush to a large object that failed: the answer may have been lost
  // after the flush was done. 0: none did.
  uint64_t in_doubt_ = 0;
  bool small_;
  bool open_ = true;
};

}  // namespace muster::inline v0_1::stores::internal
