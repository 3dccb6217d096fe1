// The group of a replica: threads of this process in a LocalGroup, and replicas of other processes,
// if there are any, through a ProcessGroup. The first replica here represents all of its process.
// Thread safety: as Group.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/collectives/communicator.h"
#include "muster/distribute/group.h"
#include "muster/distribute/internal/local_group.h"
#include "muster/distribute/internal/process_group.h"
#include "muster/distribute/replica_place.h"

namespace muster::inline v0_1::distribute {

class ReplicaGroup final : public Group {
 public:
  // `processes` is nullptr if there are no others. A failure elsewhere ends the wait of this
  // replica in `communicator`, which outlives the group or its finish().
  ReplicaGroup(const ReplicaPlace& place, std::shared_ptr<LocalGroup> group,
               std::shared_ptr<ProcessGroup> processes, Communicator& communicator);
  ~ReplicaGroup() override;

  std::vector<std::string> gather_text(const std::string& name, const std::string& text) override;
  void declare_model(const std::vector<std::string>& lines) override;
  void barrier(const std::string& name) override;
  void finish() override;
  void report(Phase phase, int64_t step) override;
  void fail(const Error& error) noexcept override;
  void check_failure() override;
  void await_failure() override;
  Error explain(const Error& error) override;
  std::shared_ptr<Mailbox> mailbox() override {
    return processes_ != nullptr ? processes_->mailbox() : nullptr;
  }

 private:
  // Waits until all replicas of this process have called it for `what`, each with its text `mine`.
  // Then the first replica calls `fn` with all texts, which waits for the other processes. All
  // replicas get its result.
  std::string together(const std::string& what, const std::string& mine,
                       const std::function<std::string(const std::vector<std::string>&)>& fn);

  const ReplicaPlace place_;
  const std::shared_ptr<LocalGroup> group_;
  const std::shared_ptr<ProcessGroup> processes_;
  // Ends a collective from outside; callbacks that use it may outlive this.
  struct Interrupt {
    std::mutex mutex{};
    Communicator* communicator = nullptr;
  };
  const std::shared_ptr<Interrupt> interrupt_ = std::make_shared<Interrupt>();
  bool finished_ = false;
};

}  // namespace muster::inline v0_1::distribute
