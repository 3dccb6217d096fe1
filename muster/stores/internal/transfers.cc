#include "muster/stores/internal/transfers.h"

#include <utility>

#include "muster/files/shared_patience.h"

namespace muster::inline v0_1::stores::internal {
namespace {

constexpr int kThreads = 32;

}  // namespace

TransferThreads::~TransferThreads() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void TransferThreads::submit(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back([task = std::move(task), outage = SharedPatience::current()] {
    const SharedPatience::Part part(outage);
    task();
  });
  if (idle_ < static_cast<int>(tasks_.size()) && static_cast<int>(threads_.size()) < most_)
    threads_.emplace_back([this] { work(); });
  changed_.notify_one();
}

void TransferThreads::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

Transfers::Transfers(std::unique_ptr<ObjectSource> from, const StoreOptions& given)
    : limits(given), source(std::move(from)), threads(kThreads) {}

Status read_block(ObjectSource& source, const ObjectName& object, const ObjectInfo& info,
                  uint64_t offset, MutableBytes out, Cancellation* cancellation) {
  Result<RangeRead> got = source.read(object, info.version, offset, out, cancellation);
  if (!got.ok()) return got.error();
  if (got.value().bytes == out.size()) return {};
  return corrupt("'" + object.uri() + "' ended at byte " +
                     std::to_string(offset + got.value().bytes) + ", but it has " +
                     std::to_string(info.size) + " bytes",
                 "it was replaced while it was read, or the server is at fault: read it again");
}

}  // namespace muster::inline v0_1::stores::internal
