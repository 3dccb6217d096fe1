// An object that grows: each flush replaces it by itself and what was appended. Thread safety: as
// FileWriter.
#pragma once

#include <memory>
#include <string>

#include "muster/base/file_system.h"
#include "muster/stores/internal/transfers.h"

namespace muster::inline v0_1::stores::internal {

class GrowingObject : public FileWriter {
 public:
  // Continues `info`; `service` is what `transfers` owns. Of a small object `content` holds the
  // bytes; of a large one it is empty.
  GrowingObject(std::shared_ptr<Transfers> transfers, ObjectService& service, ObjectName object,
                ObjectInfo info, std::string content);

  Status append(Bytes bytes) override;
  Status flush() override;
  Status sync() override { return flush(); }
  Status close() override;

  // Objects up to this size are held in memory and sent again as a whole, in bytes: the service
  // joins no smaller ones.
  static constexpr uint64_t kSmall = uint64_t{5} << 20;

 private:
  // Finds out whether a flush that failed was done anyway.
  Status look_again();

  const std::shared_ptr<Transfers> transfers_;
  ObjectService& service_;
  const ObjectName object_;
  ObjectInfo base_;      // what the store has of it
  std::string content_;  // all of it while it is small; after that what is not sent yet
  uint64_t unsent_ = 0;  // bytes at the end of content_
  // How many of them went with a flush to a large object that failed: its answer may have been
  // lost after the work. 0: none did.
  uint64_t in_doubt_ = 0;
  bool small_;
  bool open_ = true;
};

}  // namespace muster::inline v0_1::stores::internal
