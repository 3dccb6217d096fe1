// What a Cluster is made of. Thread safety: belongs to the thread of its Cluster.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/distribute/replica.h"
#include "muster/parallel/cluster.h"
#include "muster/parallel/internal/call_meeting.h"
#include "muster/parallel/internal/gradient_sync.h"
#include "muster/parallel/internal/loop_view.h"
#include "muster/parallel/internal/norm_sync.h"

namespace muster::inline v0_1 {

class Cluster::Impl {
 public:
  explicit Impl(const ClusterOptions& options);

  distribute::Replica& replica() { return *replica_; }
  bool alone() const { return replica_->communicator() == nullptr; }
  bool cancelled() const { return cancelled_(); }
  bool stop() const { return alone() ? cancelled_() : meeting_.stop(); }

  // Calls `fn` where all workers are in the call of these words; returns what it returns. Throws
  // where the run is over.
  template <typename Fn>
  auto call(const internal::CallMeeting::Call& call, Fn fn) {
    check_ready();
    const plan::OnActivity on(view_.record());
    const plan::InCollective waits;
    try {
      if (!alone()) {
        const auto met = meeting_.meet(call);
        // Workers that have joined take no step: what they have is older.
        if (met.kind == internal::CallMeeting::Kind::kSave &&
            met.active < replica_->place().replicas())
          share_newest();
      }
      return fn();
    } catch (const Error& error) {
      fail(error);
      throw;
    }
  }

  // A module that data_parallel() wrapped; workers that have joined need it as long as there is a
  // Cluster, whatever the program keeps.
  struct Wrapped {
    std::shared_ptr<internal::GradientSync> sync{};
    DataParallelOptions::Buffers buffers{};
  };
  Wrapped wrap(std::shared_ptr<torch::nn::Module> module, const DataParallelOptions& options);
  void make_buffers_one(const Wrapped& wrapped) const;
  void check_ready() const;
  void join();
  // The clean end, or, where an exception is under way, the news of it.
  void end() noexcept;

  // What a checkpoint does in a save of the others on a worker that has joined, and how it gives
  // all workers what it has besides modules.
  struct Saver {
    std::function<void()> save_with_others{};
    std::function<void(int root)> share{};
  };
  // Returns its number, the CallMeeting::Call::number of its saves.
  int add_saver(std::weak_ptr<Saver> saver) {
    if (savers_.size() == internal::CallMeeting::kMostNumbers) {
      throw invalid_argument("not supported: more than 1024 calls of Cluster::checkpoint()",
                             "call it once for each directory, and keep what it returned");
    }
    savers_.push_back(std::move(saver));
    return static_cast<int>(savers_.size()) - 1;
  }
  void sync_buffers() const;
  internal::LoopView& view() { return view_; }

 private:
  void fail(const Error& error);
  // Throws where data_parallel() was given this module before, or too many.
  void check_new(const torch::nn::Module& module) const;
  // Everything that trains becomes that of the worker with the most steps.
  void share_newest();

  const ClusterOptions options_;
  const std::function<bool()> cancelled_;
  const int exceptions_;
  std::unique_ptr<distribute::Replica> replica_;
  internal::LoopView view_;
  internal::CallMeeting meeting_;
  const std::shared_ptr<internal::NormSync> norms_;
  std::vector<Wrapped> modules_;
  std::vector<std::weak_ptr<Saver>> savers_;
  std::optional<Error> ended_;
};

}  // namespace muster::inline v0_1
