// An API server of Kubernetes, for tests: it answers kubectl's requests, over objects in memory.
// Thread safety: any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace muster::inline v0_1::jobs::internal {

// Knows Jobs, Services, Secrets and pods, and TFJobs and PyTorchJobs when they are installed. It
// makes no pods by itself: a test adds them.
class StandInCluster {
 public:
  explicit StandInCluster(bool kubeflow = true);
  ~StandInCluster();

  // Writes a configuration of kubectl for this cluster to `path`; its context is named "stand-in",
  // its namespace "lab".
  void write_configuration(const std::string& path) const;

  // The object of that resource ("jobs") and name; null when there is none.
  nlohmann::json find(const std::string& resource, const std::string& name) const;
  std::vector<std::string> names(const std::string& resource) const;
  // Puts an object there, or replaces the one of its name.
  void put(const std::string& resource, nlohmann::json object);
  // Sets the output of a pod's container.
  void set_log(const std::string& pod, const std::string& text);
  // The requests so far that had a path which it does not know; a test wants none.
  std::vector<std::string> unknown_requests() const;
  // From now on creations of this resource are refused, as without the right to it.
  void forbid(const std::string& resource);
  // Removes an object, and its dependents.
  void lose(const std::string& resource, const std::string& name);
  // The validation that was requested when objects of this resource were created: "Strict".
  std::string validation_of(const std::string& resource) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::jobs::internal
