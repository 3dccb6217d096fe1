#include "muster/collectives/thread_communicator.h"

#include <fmt/format.h>

#include <utility>

#include "muster/collectives/internal/progress_engine.h"
#include "muster/collectives/internal/tensor_communicator.h"

namespace muster::inline v0_1 {
namespace {

using internal::GroupMember;
using internal::ProgressEngine;

class ThreadCommunicator final : public internal::TensorCommunicator {
 public:
  ThreadCommunicator(int rank, const ThreadGroupOptions& options, internal::GroupMembers members)
      : TensorCommunicator(rank, options.size) {
    if (options.size == 1) return;
    engine_ = std::make_shared<ProgressEngine>(
        ProgressEngine::Options{.rank = rank, .timeout = options.timeout}, std::move(members),
        std::make_shared<internal::SameProcessMemory>());
    start(engine_);
  }
  ~ThreadCommunicator() override {
    stop();
    if (engine_) engine_->leave();
  }

  std::string_view name() const override { return "threads"; }

 private:
  std::shared_ptr<ProgressEngine> engine_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    const ThreadGroupOptions& options) {
  if (options.size < 1) {
    throw invalid_argument(fmt::format("a group of {} threads makes no sense", options.size));
  }
  const internal::GroupMembers members = internal::members_of_one_process(options.size);
  std::vector<std::unique_ptr<Communicator>> group;
  for (int rank = 0; rank < options.size; ++rank) {
    group.push_back(std::make_unique<ThreadCommunicator>(rank, options, members));
  }
  return group;
}

}  // namespace muster::inline v0_1
