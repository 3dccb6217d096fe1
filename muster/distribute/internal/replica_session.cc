#include "muster/distribute/internal/replica_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/foreign_error.h"

namespace muster::inline v0_1::distribute {
namespace {

// Texts of any bytes as one: "<length>:<bytes>", one after the other.
std::string pack(const std::vector<std::string>& texts) {
  std::string packed;
  for (const std::string& text : texts) packed += fmt::format("{}:{}", text.size(), text);
  return packed;
}

std::vector<std::string> unpack(const std::string& packed) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < packed.size();) {
    const size_t colon = packed.find(':', at);
    size_t length = 0;
    if (colon != std::string::npos) {
      std::from_chars(packed.data() + at, packed.data() + colon, length);
    }
    if (colon == std::string::npos || length > packed.size() - colon - 1) {
      throw internal_error("another process sent texts that cannot be taken apart");
    }
    texts.push_back(packed.substr(colon + 1, length));
    at = colon + 1 + length;
  }
  return texts;
}

std::string first_difference(const std::vector<std::string>& expected,
                             const std::vector<std::string>& other) {
  const size_t lines = std::max(expected.size(), other.size());
  const auto line = [](const std::vector<std::string>& of, size_t i) {
    return i < of.size() ? "'" + of[i] + "'" : std::string("nothing");
  };
  size_t i = 0;
  while (i + 1 < lines && line(expected, i) == line(other, i)) ++i;
  return fmt::format("{} instead of {}", line(other, i), line(expected, i));
}

}  // namespace

ReplicaSession::ReplicaSession(const ReplicaPlace& place, std::string title,
                               std::shared_ptr<LocalGroup> group,
                               std::shared_ptr<ProcessGroup> processes,
                               std::unique_ptr<Communicator> communicator, uint64_t seed,
                               const WireOptions& wire)
    : SyncSession(seed, place.device, wire),
      place_(place),
      title_(std::move(title)),
      group_(std::move(group)),
      processes_(std::move(processes)),
      transport_(communicator->name()) {
  communicator_ = std::move(communicator);
  interrupt_->communicator = communicator_.get();
  // Whoever waits in a collective for a replica that failed elsewhere.
  const auto abort = [interrupt = interrupt_](const Error& error) {
    const std::lock_guard lock(interrupt->mutex);
    if (interrupt->communicator == nullptr) return;
    interrupt->communicator->abort(ErrorKind::kPeerLost, error.message());
  };
  group_->on_failure(abort);
  if (processes_ != nullptr) processes_->on_failure(abort);
}

ReplicaSession::~ReplicaSession() {
  {
    const std::lock_guard lock(interrupt_->mutex);
    interrupt_->communicator = nullptr;
  }
  if (!finished_) group_->leave(place_.local);
}

std::string ReplicaSession::describe() const {
  return fmt::format("{} over {}", title_, transport_);
}

std::string ReplicaSession::together(
    const std::string& what, const std::string& mine,
    const std::function<std::string(const std::vector<std::string>&)>& fn) {
  const std::vector<std::string> brought = group_->exchange(place_.local, what, mine);
  if (processes_ == nullptr) return fn(brought);
  std::string result;
  if (place_.local == 0) {
    const LocalGroup::Outside outside(*group_, 0);
    result = fn(brought);
  }
  return group_->exchange(place_.local, what + " (all processes)", std::move(result))[0];
}

std::vector<std::string> ReplicaSession::gather_text(const std::string& name,
                                                     const std::string& text) {
  return guarded([&] {
    const std::string packed =
        together("gather " + name, text, [&](const std::vector<std::string>& brought) {
          if (processes_ == nullptr) return pack(brought);
          std::string all;  // process by process
          for (const std::string& theirs : processes_->gather_text(name, pack(brought)))
            all += theirs;
          return all;
        });
    return unpack(packed);
  });
}

void ReplicaSession::report(Phase phase, int64_t step) {
  group_->report(place_.local, phase, step);
  if (processes_ != nullptr && place_.local == 0) processes_->report(phase, step);
}

void ReplicaSession::barrier(const std::string& name) {
  guarded([&] {
    together("barrier " + name, "", [&](const std::vector<std::string>&) {
      if (processes_ != nullptr) processes_->barrier(name);
      return std::string();
    });
  });
}

void ReplicaSession::finish() {
  guarded([&] {
    together("finish", "", [&](const std::vector<std::string>&) {
      if (processes_ != nullptr) processes_->finish();
      return std::string();
    });
  });
  finished_ = true;
  {
    const std::lock_guard lock(interrupt_->mutex);
    interrupt_->communicator = nullptr;
  }
  // Here, where the replicas of a process are threads and say goodbye to each other at once.
  communicator_.reset();
}

void ReplicaSession::check_failure() {
  if (const auto failure = group_->failure()) throw *failure;
  if (processes_ != nullptr) processes_->check_failure();
}

void ReplicaSession::fail(const Error& error) noexcept {
  if (finished_) return;
  group_->fail(place_.local, error);
  if (processes_ != nullptr) processes_->fail(error);
}

Error ReplicaSession::explain(const Error& error) {
  // A replica of this process cannot be lost without having failed.
  const auto failed_here = [&] { return group_->failure().has_value(); };
  if (processes_ != nullptr && !failed_here()) {
    const Error cause = processes_->explain(error, failed_here);
    if (!failed_here()) return cause;
  }
  const auto failure = group_->failure();
  return failure && error.kind() == ErrorKind::kPeerLost ? *failure : error;
}

void ReplicaSession::declare_model(const std::vector<std::string>& signature) {
  together("model", pack(signature), [&](const std::vector<std::string>& all) {
    for (size_t replica = 1; replica < all.size(); ++replica) {
      if (all[replica] == all[0]) continue;
      const int first = place_.process * place_.locals;
      throw invalid_argument(
          fmt::format("replica {} built another model than replica {}: {}",
                      first + static_cast<int>(replica), first,
                      first_difference(unpack(all[0]), unpack(all[replica]))),
          "the model function must create the same variables and optimizers on every replica");
    }
    if (processes_ != nullptr) processes_->declare_model(signature);
    return std::string();
  });
}

std::string ReplicaSession::share_text(const std::string& note) {
  return together("note", is_chief() ? note : "", [&](const std::vector<std::string>& all) {
    return processes_ == nullptr ? all[0] : processes_->share_text(all[0]);
  });
}

void ReplicaSession::await_failure() {
  // The replica it comes from fails, or leaves with its own error; either ends this wait.
  if (processes_ == nullptr) return barrier("failure");
  processes_->await_failure([&] { return group_->failure().has_value(); });
  check_failure();
}

std::vector<std::unique_ptr<Communicator>> connect_replicas(
    int locals, const std::function<std::unique_ptr<Communicator>(int local)>& connect,
    const std::function<void(const Error& error)>& failed) {
  std::vector<std::unique_ptr<Communicator>> communicators(static_cast<size_t>(locals));
  std::mutex mutex;
  std::exception_ptr first;
  bool known = false;
  const auto run = [&](int local) {
    try {
      communicators[static_cast<size_t>(local)] = connect(local);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (std::exchange(known, true)) return;
        first = std::current_exception();
      }
      if (failed) failed(current_error());
    }
  };
  std::vector<std::thread> threads;
  for (int local = 1; local < locals; ++local) threads.emplace_back(run, local);
  run(0);
  for (std::thread& thread : threads) thread.join();
  if (!first) return communicators;
  // One by one, each would wait for the farewell of the next.
  for (const auto& communicator : communicators) {
    if (communicator) communicator->abort("another replica of the process could not connect");
  }
  std::rethrow_exception(first);
}

}  // namespace muster::inline v0_1::distribute
