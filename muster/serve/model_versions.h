// The versions of a model that a server has: it looks into their folder from time to time, takes a
// newer one up, and lets an older one finish what it has.
// Thread safety: any thread may ask; one thread at a time polls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/file_system.h"
#include "muster/serve/batcher.h"
#include "muster/serve/model.h"
#include "muster/serve/serving_metrics.h"

namespace muster::inline v0_1::serve {

// One loaded version. Each running request holds it by a shared pointer; the last one destroys it.
struct ServedVersion {
  ServedVersion(int64_t number, std::shared_ptr<Model> loaded, const BatcherOptions& options,
                ServingMetrics& metrics);

  const int64_t version;
  const std::shared_ptr<Model> model;
  Batcher batcher;
};

// What became of a version, in the words of TensorFlow Serving.
struct VersionStatus {
  int64_t version = 0;
  std::string state{};  // "LOADING", "AVAILABLE", or "END" for one that could not be loaded
  std::string error{};  // why it could not be loaded; else empty
};

class ModelVersions {
 public:
  // Loads the version in `folder`. Throws Error when it cannot be.
  using Load = std::function<std::shared_ptr<Model>(const std::string& folder)>;

  // `directory` holds a folder for each version, called by a decimal number: the greatest is the
  // newest. Or it is an .onnx or a .pb file, which is version 1. The newest `keep` that can be
  // loaded are served. What is given must outlive this.
  ModelVersions(std::string directory, Load load, int keep, const BatcherOptions& options,
                ServingMetrics& metrics, FileSystem& files = local_file_system());
  ~ModelVersions();

  // Looks once: loads what is new, then releases what is no longer among the newest. A version
  // whose folder is gone gives way to the newest there is; while there is none, what is loaded
  // stays. One that cannot be loaded is said in the log and tried again later, ever more rarely.
  void poll();
  // Polls from now on, on a thread of its own, until this object goes.
  void poll_every(Duration period);

  // The newest version; null while none is loaded.
  std::shared_ptr<ServedVersion> newest() const;
  // The loaded version of that number; null when there is none.
  std::shared_ptr<ServedVersion> find(int64_t version) const;
  // What there is, the newest first.
  std::vector<VersionStatus> status() const;
  // Why the last poll could not tell which versions there are; nothing when it could. A folder that
  // is not there has none.
  std::optional<Error> trouble() const;

 private:
  struct Failure {
    std::string error{};
    int wait = 1;       // polls until it is tried again
    int next_wait = 2;  // after the next failure
  };

  // Whether there is a folder of that number; in a store, whose folders are not made in one step,
  // whether it is whole: the file that is written last is there.
  Result<bool> is_there(int64_t version) const;
  // The numbers of the folders, the newest first.
  Result<std::vector<int64_t>> versions() const;
  // The folder of a version, or the file.
  std::string place_of(int64_t version) const;
  // Returns the version, loaded now unless it is already; null when it cannot be.
  std::shared_ptr<ServedVersion> get(int64_t version);
  void replace(std::map<int64_t, std::shared_ptr<ServedVersion>> wanted);

  const std::string directory_;
  const bool is_file_;
  const Load load_;
  const int keep_;
  const BatcherOptions options_;
  ServingMetrics& metrics_;
  FileSystem& files_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::map<int64_t, std::shared_ptr<ServedVersion>> loaded_;
  std::map<int64_t, Failure> failures_;
  int64_t loading_ = -1;  // the version that is being loaded
  std::optional<Error> trouble_;
  bool warned_ = false;  // that the folder holds no versions, or cannot be read
  std::thread poller_;
};

}  // namespace muster::inline v0_1::serve
