// Objects of a store as files and directories. Thread safety: as FileSystem.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/stores/internal/transfers.h"

namespace muster::inline v0_1::stores::internal {

class ObjectFileSystem : public FileSystem {
 public:
  ObjectFileSystem(std::unique_ptr<ObjectService> service, const StoreOptions& limits);

  Result<FileInfo> info(const std::string& path) override;
  Result<std::unique_ptr<FileReader>> open_reader(const std::string& path) override;
  Result<std::unique_ptr<FileWriter>> open_writer(const std::string& path) override;
  Result<std::unique_ptr<StagedWriter>> open_staged(const std::string& path) override;
  Result<std::vector<std::string>> list_directory(const std::string& path) override;
  Result<std::vector<DirectoryEntry>> list_entries(const std::string& path) override;
  Status make_directories(const std::string& path) override;
  Status remove(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove_tree(const std::string& path) override;

 private:
  // The name of an object; InvalidArgument for a bucket alone.
  Result<ObjectName> file_name(const std::string& path) const;
  Result<ObjectName> any_name(const std::string& path) const;
  // The content below a directory: nothing, only its marker, or something.
  enum class Below { kNothing, kMarker, kSomething };
  Result<Below> below(const ObjectName& directory);

  ObjectService& service_;  // owned by transfers_
  const std::shared_ptr<Transfers> transfers_;
  std::mutex mutex_;
  std::set<std::string> known_buckets_;  // that were seen
};

}  // namespace muster::inline v0_1::stores::internal
