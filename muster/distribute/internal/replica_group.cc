#include "muster/distribute/internal/replica_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "muster/base/error.h"
#include "muster/plan/activity.h"

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

ReplicaGroup::ReplicaGroup(const ReplicaPlace& place, std::shared_ptr<LocalGroup> group,
                           std::shared_ptr<ProcessGroup> processes, Communicator& communicator)
    : place_(place), group_(std::move(group)), processes_(std::move(processes)) {
  interrupt_->communicator = &communicator;
  // Ends waits in a collective for a replica that failed elsewhere.
  const auto abort = [interrupt = interrupt_](const Error& error) {
    const std::lock_guard lock(interrupt->mutex);
    if (interrupt->communicator == nullptr) return;
    interrupt->communicator->abort(ErrorKind::kPeerLost, error.message());
  };
  group_->on_failure(abort);
  if (processes_ != nullptr) processes_->on_failure(abort);
}

ReplicaGroup::~ReplicaGroup() {
  {
    const std::lock_guard lock(interrupt_->mutex);
    interrupt_->communicator = nullptr;
  }
  if (!finished_) group_->leave(place_.local);
}

std::string ReplicaGroup::together(
    const std::string& what, const std::string& mine,
    const std::function<std::string(const std::vector<std::string>&)>& fn) {
  const plan::InActivity waits(plan::Activity::kWaiting);
  const std::vector<std::string> brought = group_->exchange(place_.local, what, mine);
  if (processes_ == nullptr) return fn(brought);
  std::string result;
  if (place_.local == 0) {
    const LocalGroup::Outside outside(*group_, 0);
    result = fn(brought);
  }
  return group_->exchange(place_.local, what + " (all processes)", std::move(result))[0];
}

std::vector<std::string> ReplicaGroup::gather_text(const std::string& name,
                                                   const std::string& text) {
  return explained([&] {
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

void ReplicaGroup::report(Phase phase, int64_t step) {
  plan::this_activity().report(phase, step);
  group_->report(place_.local, phase, step);
  if (processes_ != nullptr && place_.local == 0) processes_->report(phase, step);
}

void ReplicaGroup::barrier(const std::string& name) {
  explained([&] {
    together("barrier " + name, "", [&](const std::vector<std::string>&) {
      if (processes_ != nullptr) processes_->barrier(name);
      return std::string();
    });
  });
}

void ReplicaGroup::finish() {
  explained([&] {
    together("finish", "", [&](const std::vector<std::string>&) {
      if (processes_ != nullptr) processes_->finish();
      return std::string();
    });
  });
  finished_ = true;
  const std::lock_guard lock(interrupt_->mutex);
  interrupt_->communicator = nullptr;
}

void ReplicaGroup::check_failure() {
  if (const auto failure = group_->failure()) throw *failure;
  if (processes_ != nullptr) processes_->check_failure();
}

void ReplicaGroup::fail(const Error& error) noexcept {
  if (finished_) return;
  group_->fail(place_.local, error);
  if (processes_ != nullptr) processes_->fail(error);
}

Error ReplicaGroup::explain(const Error& error) {
  // A replica of this process cannot be lost without having failed.
  const auto failed_here = [&] { return group_->failure().has_value(); };
  if (processes_ != nullptr && !failed_here()) {
    const Error cause = processes_->explain(error, failed_here);
    if (!failed_here()) return cause;
  }
  const auto failure = group_->failure();
  return failure && error.kind() == ErrorKind::kPeerLost ? *failure : error;
}

void ReplicaGroup::declare_model(const std::vector<std::string>& lines) {
  together("model", pack(lines), [&](const std::vector<std::string>& all) {
    for (size_t replica = 1; replica < all.size(); ++replica) {
      if (all[replica] == all[0]) continue;
      const int first = place_.process * place_.locals;
      throw invalid_argument(
          fmt::format("replica {} built another model than replica {}: {}",
                      first + static_cast<int>(replica), first,
                      first_difference(unpack(all[0]), unpack(all[replica]))),
          "the model function must create the same variables and optimizers on every replica");
    }
    if (processes_ != nullptr) processes_->declare_model(lines);
    return std::string();
  });
}

void ReplicaGroup::await_failure() {
  // The replica it comes from fails, or leaves with its own error; either ends this wait.
  if (processes_ == nullptr) return barrier("failure");
  processes_->await_failure([&] { return group_->failure().has_value(); });
  check_failure();
}

}  // namespace muster::inline v0_1::distribute
