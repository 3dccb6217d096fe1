#include "muster/collectives/thread_communicator.h"

#include <fmt/format.h>

#include "muster/collectives/internal/tensor_communicator.h"
#include "muster/collectives/internal/thread_hub.h"

namespace muster::inline v0_1 {
namespace {

class ThreadCommunicator final : public internal::TensorCommunicator {
 public:
  ThreadCommunicator(std::shared_ptr<internal::ThreadHub> hub, int rank, int size)
      : TensorCommunicator(rank, size), hub_(std::move(hub)) {
    if (size == 1) return;
    start({.execute = [this](const internal::Operation& op) { hub_->execute(this->rank(), op); },
           .finish = [this](const Error* error) { hub_->leave(this->rank(), error); }});
  }
  ~ThreadCommunicator() override { stop(); }

  std::string_view name() const override { return "threads"; }

 private:
  void interrupt(const Error& error) override {
    hub_->abort(rank(), error.kind(), error.message());
  }

  const std::shared_ptr<internal::ThreadHub> hub_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    const ThreadGroupOptions& options) {
  if (options.size < 1) {
    throw invalid_argument(fmt::format("a group of {} threads makes no sense", options.size));
  }
  auto hub = std::make_shared<internal::ThreadHub>(options.size, options.timeout);
  std::vector<std::unique_ptr<Communicator>> group;
  for (int rank = 0; rank < options.size; ++rank) {
    group.push_back(std::make_unique<ThreadCommunicator>(hub, rank, options.size));
  }
  return group;
}

}  // namespace muster::inline v0_1
