// A lease is a file "<name>.lease" in a model_dir by which a process says that it is at work there,
// which checkpoints must stay meanwhile, and what those next to it should know. Its holder rewrites
// it every two seconds (in a store, every ten), so one that died is told from one that works.
// Clocks of two machines are never compared closely: a reader measures, by its own clock, for
// how long nothing changed.
//
// Its rules are those of plan/membership.h where twins wait: a holder is lost after the silence of
// kHeartbeatTimeout, and at once where its process is known to have ended; its goodbye removes the
// file; of one that was taken for dead nothing counts any more; who comes second waits. The code is
// its own: nobody hosts a file and hears every beat. A watcher looks when it needs to know,
// be it every ten minutes, so that a gap between two looks is not a standstill, and each look is
// one comparison.
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

// What a lease says.
struct LeaseContent {
  std::string holder{};               // for people: "evaluator:0, process 12 on host"
  std::vector<std::string> pinned{};  // names of checkpoints that stay: "model.ckpt-120"
  // Checkpoints of this step and of later ones stay too.
  std::optional<int64_t> pinned_from{};
  std::string note{};  // free text for the readers of this lease
  bool operator==(const LeaseContent&) const = default;
};

// How a lease is held.
struct LeaseOptions {
  FileSystem* fs = nullptr;  // nullptr: that of the path; otherwise it must outlive the lease
  // Unset: two seconds; ten in a store, where each beat is two requests.
  std::optional<std::chrono::milliseconds> beat = {};
  // Called on a thread of the lease's own before each beat; it may change what the lease says.
  std::function<void(LeaseContent&)> before_beat = {};
};

// Holds a lease: the file is there, and is rewritten, for as long as the object is.
class MUSTER_PART_EXPORT Lease {
 public:
  // Makes model_dir where there is none, and writes the file. Throws what the file system says.
  Lease(const std::string& model_dir, const std::string& name, LeaseContent content,
        LeaseOptions options = {});
  // Removes the file, unless another process owns it by now.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // Changes what it says; others see it when this returns. Throws what the file system says.
  void change(const std::function<void(LeaseContent&)>& edit);
  // From now on the file stays as it is, without a beat and after the end of this object: what it
  // says are last words.
  void leave_behind();
  // Whether another process has taken the name, since this process was taken for dead. It is not
  // written any more then.
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
  // A lease that does not change for so long has a dead holder.
  static constexpr std::chrono::seconds kHeartbeatTimeout{60};

  // `fs` and `clock` outlive it.
  LeaseWatch(const std::string& model_dir, const std::string& name, FileSystem& fs, Clock& clock);

  // What the lease says; nothing when there is none, or when its holder is dead. One that is seen
  // for the first time counts as alive, but where its process was of this machine and is gone, or
  // where the file is ten minutes old. Throws nothing: a file that cannot be read counts as
  // unchanged.
  std::optional<LeaseContent> look();
  // Why look() cannot tell: the store did not answer, for now. Unset where it could be read.
  const std::optional<Error>& trouble() const { return trouble_; }
  // How often look() has seen the file change; the first time it was there counts.
  int64_t changes() const { return changes_; }
  // What the file said last, whether its holder is dead or alive; empty when there was no file.
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
  // Whether a lease that look() has read keeps the checkpoint "model.ckpt-120". Where look() could
  // not tell what leases there are, every checkpoint may be one that is read.
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
