// A lease is a file "<name>.lease" in a model_dir by which a process says that it works there,
// which checkpoints must stay meanwhile, and what other processes should know. Its holder rewrites
// it every two seconds (in a store, every ten), so a dead holder can be distinguished from a live
// one. Clocks of two machines are never compared closely: a watcher measures, by its own clock, for
// how long nothing changed.
//
// Its rules follow plan/membership.h with twins_wait: a holder is lost after the silence of
// kHeartbeatTimeout, and at once where its process is known to have ended; its goodbye removes the
// file; nothing counts any more from a holder that was taken for dead; a second process waits. The
// code is its own, because no host sees every beat of a file. A watcher looks when it needs to
// know, perhaps every ten minutes, so that a gap between two looks is no standstill, and each look
// is one comparison.
//
// Thread safety: a Lease may be used from any thread; a LeaseWatch and a LeasedCheckpoints belong
// to one thread at a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/error.h"
#include "muster/base/export.h"
#include "muster/base/file_system.h"

namespace muster::inline v0_1 {

// The content of a lease.
struct LeaseContent {
  std::string holder{};               // for people: "evaluator:0, process 12 on host"
  std::vector<std::string> pinned{};  // names of checkpoints that stay: "model.ckpt-120"
  // Checkpoints of this step and of later ones stay too.
  std::optional<int64_t> pinned_from{};
  std::string note{};  // free text, for readers of leases of this name
  bool operator==(const LeaseContent&) const = default;
};

// How a lease is held.
struct LeaseOptions {
  FileSystem* fs = nullptr;  // nullptr: the file system of the path; otherwise it must outlive the
                             // lease
  // Unset: two seconds; ten in a store, where each beat is two requests.
  std::optional<std::chrono::milliseconds> beat = {};
  // Called on a thread of the lease's own before each beat; it may change the content of the lease.
  std::function<void(LeaseContent&)> before_beat = {};
};

// Holds a lease: the file exists, and is rewritten, for as long as the object exists.
class MUSTER_PART_EXPORT Lease {
 public:
  // Makes model_dir if there is none, and writes the file. Throws the file system's errors.
  Lease(const std::string& model_dir, const std::string& name, LeaseContent content,
        LeaseOptions options = {});
  // Removes the file, unless another process holds it by now.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Changes its content; others see the change when this returns. Throws the file system's errors.
  void change(const std::function<void(LeaseContent&)>& edit);
  // From now on the file stays as it is, without a beat, and after the end of this object too: its
  // content is final.
  void leave_behind();
  // Whether another process has taken the name, because this process was taken for dead. The file
  // is not written any more then.
  bool lost() const;
  // The same, after a look at the file: a process that was stopped for a while, and continues, has
  // not beaten since. A file that cannot be read counts as ours.
  bool look_whether_lost();

 private:
  void beat();
  void write_locked();
  void write_unless_taken_locked();
  Result<bool> taken_locked();

  const std::string path_;
  const std::string id_;  // of this object
  FileSystem& fs_;
  const LeaseOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point failed_look_{};
  LeaseContent content_;
  int64_t beats_ = 0;
  bool lost_ = false;
  bool left_behind_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// Looks at one lease now and then.
class LeaseWatch {
 public:
  // A lease that does not change for this long has a dead holder.
  static constexpr std::chrono::seconds kHeartbeatTimeout{60};

  // `fs` and `clock` outlive it.
  LeaseWatch(const std::string& model_dir, const std::string& name, FileSystem& fs, Clock& clock);

  // Returns the content of the lease; nothing if there is none, or if its holder is dead. A holder
  // that is seen for the first time counts as alive, except if its process was of this machine and
  // is gone, or if the file is ten minutes old. Throws nothing: a file that cannot be read counts
  // as unchanged.
  std::optional<LeaseContent> look();
  // Why look() has no result: the store did not answer, for now. Unset if the lease could be read.
  const std::optional<Error>& trouble() const { return trouble_; }
  // How often look() has seen the file change; its first appearance counts.
  int64_t changes() const { return changes_; }
  // The last content of the file, whether its holder is dead or alive; empty if there was no file.
  const LeaseContent& last() const { return last_; }

 private:
  const std::string path_;
  FileSystem& fs_;
  Clock& clock_;
  std::string text_;
  LeaseContent last_;
  TimePoint changed_;
  int64_t changes_ = 0;
  bool gone_ = false;  // its process
  std::optional<Error> trouble_;
};

// The checkpoints of a model_dir that leases keep.
class LeasedCheckpoints {
 public:
  LeasedCheckpoints(std::string model_dir, FileSystem& fs, Clock& clock);

  // Reads all leases there are.
  void look();
  // Whether a lease that look() has read keeps the checkpoint "model.ckpt-120". If look() could not
  // list the leases, every checkpoint may be in use.
  bool hold(const std::string& name) const;

 private:
  const std::string model_dir_;
  FileSystem& fs_;
  Clock& clock_;
  std::map<std::string, LeaseWatch> watches_;  // by the name of the lease
  std::vector<LeaseContent> alive_;
  bool unknown_ = false;  // some lease could not be read
};

}  // namespace muster::inline v0_1
