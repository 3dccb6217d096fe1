#include "muster/plan/membership.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::inline v0_1::plan {

std::optional<std::string> Pulse::why_lost(const MembershipRules& rules, double now) const {
  if (now - heard > rules.heartbeat_timeout)
    return fmt::format("no heartbeat for {:.1f} s", now - heard);
  if (!disconnected_since || !rules.reconnect_timeout) return std::nullopt;
  if (now - *disconnected_since <= *rules.reconnect_timeout) return std::nullopt;
  return fmt::format("its connection closed and did not come back within {:.1f} s",
                     *rules.reconnect_timeout);
}

void Pulse::forgive(double seconds, double now) {
  heard = std::min(now, heard + seconds);
  if (disconnected_since) disconnected_since = std::min(now, *disconnected_since + seconds);
}

double standstill(double* last_look, double now, double longest_gap) {
  const double gap = now - std::exchange(*last_look, now);
  return gap > longest_gap ? gap : 0;
}

const Membership::Member* Membership::find(const std::string& task) const {
  const auto found = members_.find(task);
  return found != members_.end() ? &found->second : nullptr;
}

const Membership::Member* Membership::find(const Caller& caller) const {
  const Member* member = find(caller.task);
  return member != nullptr && member->incarnation == caller.incarnation ? member : nullptr;
}

int64_t Membership::here() const {
  return std::ranges::count_if(members_, [](const auto& item) { return item.second.here(); });
}

Membership::Member* Membership::known(const Caller& caller) {
  return const_cast<Member*>(std::as_const(*this).find(caller));
}

Membership::Member* Membership::here(const Caller& caller) {
  return is_here(caller) ? known(caller) : nullptr;
}

void Membership::forgive_standstill(double now) {
  const double gap = standstill(&last_look_, now, rules_.heartbeat_timeout / 2);
  if (gap == 0) return;
  stood_still_ += gap;
  for (auto& [task, member] : members_) member.pulse.forgive(gap, now);
  for (auto& [twin, since] : twins_) since = std::min(now, since + gap);
}

Membership::Admission Membership::knock(const Caller& caller, double now) {
  forgive_standstill(now);
  if (here(caller)) return Admission::kKnown;
  if (!is_here(caller.task)) return Admission::kAdmitted;
  Member& member = members_.at(caller.task);
  const bool connected = member.connections > 0 || !rules_.reconnect_timeout;
  if (!rules_.twins_wait || !connected || member.pulse.why_lost(rules_, now)) {
    (void)end(caller.task, member, {});
    return Admission::kRestarted;
  }
  const std::pair twin(caller.task, caller.incarnation);
  const double since = twins_.emplace(twin, now).first->second;
  if (now - since <= rules_.heartbeat_timeout) return Admission::kTooEarly;
  twins_.erase(twin);
  return Admission::kRefused;
}

Membership::Admission Membership::join(const Caller& caller, double now) {
  const Admission answer = knock(caller, now);
  if (answer == Admission::kKnown) (void)heartbeat(caller, now);
  if (answer != Admission::kAdmitted && answer != Admission::kRestarted) return answer;
  twins_.erase({caller.task, caller.incarnation});
  members_[caller.task] = {.incarnation = caller.incarnation, .pulse = {.heard = now}};
  return answer;
}

bool Membership::heartbeat(const Caller& caller, double now, std::optional<MemberPlace> place) {
  Member* member = here(caller);
  if (member == nullptr) return false;
  member->pulse.heard = now;
  if (place) member->place = *place;
  return true;
}

void Membership::connected(const Caller& caller) {
  Member* member = known(caller);
  if (member == nullptr) return;
  ++member->connections;
  member->pulse.disconnected_since.reset();
}

void Membership::disconnected(const Caller& caller, double now) {
  Member* member = known(caller);
  if (member == nullptr || (member->connections > 0 && --member->connections > 0)) return;
  if (!member->pulse.disconnected_since) member->pulse.disconnected_since = now;
}

void Membership::done(const Caller& caller) {
  Member* member = here(caller);
  if (member == nullptr) return;
  member->state = State::kDone;
  member->place.phase = Phase::kDone;
}

std::optional<Membership::State> Membership::goodbye(const Caller& caller) {
  twins_.erase({caller.task, caller.incarnation});
  Member* member = here(caller);
  if (member == nullptr) return std::nullopt;
  return std::exchange(member->state, State::kLeft);
}

std::optional<Failure> Membership::end(const std::string& task, Member& member,
                                       std::string reason) {
  if (std::exchange(member.state, State::kLost) == State::kHere) {
    return Failure{.task = task,
                   .reason = std::move(reason),
                   .step = member.place.step,
                   .phase = member.place.phase};
  }
  member.state = State::kLeft;
  return std::nullopt;
}

std::optional<Failure> Membership::lose(const Caller& caller, std::string reason) {
  twins_.erase({caller.task, caller.incarnation});
  Member* member = here(caller);
  if (member == nullptr) return std::nullopt;
  return end(caller.task, *member, std::move(reason));
}

std::vector<Failure> Membership::find_lost(double now) {
  forgive_standstill(now);
  std::erase_if(twins_,
                [&](const auto& twin) { return now - twin.second > 3 * rules_.heartbeat_timeout; });
  std::vector<Failure> lost;
  for (auto& [task, member] : members_) {
    if (!member.here()) continue;
    if (auto reason = member.pulse.why_lost(rules_, now)) {
      if (auto failure = end(task, member, *std::move(reason))) lost.push_back(*std::move(failure));
    }
  }
  return lost;
}

void Membership::forget(const std::string& task) {
  members_.erase(task);
  std::erase_if(twins_, [&](const auto& twin) { return twin.first.first == task; });
}

}  // namespace muster::inline v0_1::plan
