#include "muster/net/internal/coordinator_wire.h"

#include <grpc/support/log.h>

#include <mutex>

#include "muster/base/log.h"

namespace muster::inline v0_1::net {

wire::MemberId to_wire(const MemberId& from) {
  wire::MemberId to;
  to.set_task(from.task);
  to.set_incarnation(from.incarnation);
  return to;
}

MemberId from_wire(const wire::MemberId& from) {
  return {.task = from.task(), .incarnation = from.incarnation()};
}

wire::JoinRequest to_wire(const JoinRequest& from) {
  wire::JoinRequest to;
  *to.mutable_who() = to_wire(from.who);
  to.set_rank(from.rank);
  to.set_world_size(from.world_size);
  to.set_wait_seconds(from.wait_seconds);
  return to;
}

JoinRequest from_wire(const wire::JoinRequest& from) {
  return {.who = from_wire(from.who()),
          .rank = from.rank(),
          .world_size = from.world_size(),
          .wait_seconds = from.wait_seconds()};
}

wire::BeatRequest to_wire(const BeatRequest& from) {
  wire::BeatRequest to;
  *to.mutable_who() = to_wire(from.who);
  to.set_phase(from.phase);
  to.set_step(from.step);
  return to;
}

BeatRequest from_wire(const wire::BeatRequest& from) {
  return {.who = from_wire(from.who()), .phase = from.phase(), .step = from.step()};
}

wire::ModelRequest to_wire(const ModelRequest& from) {
  wire::ModelRequest to;
  *to.mutable_who() = to_wire(from.who);
  to.mutable_signature()->Assign(from.signature.begin(), from.signature.end());
  return to;
}

ModelRequest from_wire(const wire::ModelRequest& from) {
  return {.who = from_wire(from.who()),
          .signature = {from.signature().begin(), from.signature().end()}};
}

wire::BarrierRequest to_wire(const BarrierRequest& from) {
  wire::BarrierRequest to;
  *to.mutable_who() = to_wire(from.who);
  to.set_name(from.name);
  to.set_generation(from.generation);
  to.set_count(from.count);
  to.set_wait_seconds(from.wait_seconds);
  return to;
}

BarrierRequest from_wire(const wire::BarrierRequest& from) {
  return {.who = from_wire(from.who()),
          .name = from.name(),
          .generation = from.generation(),
          .count = from.count(),
          .wait_seconds = from.wait_seconds()};
}

wire::StoreRequest to_wire(const StoreRequest& from) {
  wire::StoreRequest to;
  *to.mutable_who() = to_wire(from.who);
  to.set_operation(static_cast<wire::StoreRequest::Operation>(from.operation));
  to.mutable_keys()->Assign(from.keys.begin(), from.keys.end());
  to.set_value(from.value);
  to.set_expected(from.expected);
  to.set_amount(from.amount);
  to.set_wait_seconds(from.wait_seconds);
  return to;
}

StoreRequest from_wire(const wire::StoreRequest& from) {
  return {.who = from_wire(from.who()),
          .operation = static_cast<StoreOperation>(from.operation()),
          .keys = {from.keys().begin(), from.keys().end()},
          .value = from.value(),
          .expected = from.expected(),
          .amount = from.amount(),
          .wait_seconds = from.wait_seconds()};
}

wire::FailRequest to_wire(const FailRequest& from) {
  wire::FailRequest to;
  *to.mutable_who() = to_wire(from.who);
  to.set_kind(from.kind);
  to.set_reason(from.reason);
  return to;
}

FailRequest from_wire(const wire::FailRequest& from) {
  return {.who = from_wire(from.who()), .kind = from.kind(), .reason = from.reason()};
}

wire::GoodbyeRequest to_wire(const GoodbyeRequest& from) {
  wire::GoodbyeRequest to;
  *to.mutable_who() = to_wire(from.who);
  to.set_leaving(from.leaving);
  return to;
}

GoodbyeRequest from_wire(const wire::GoodbyeRequest& from) {
  return {.who = from_wire(from.who()), .leaving = from.leaving()};
}

wire::Reply to_wire(const Reply& from) {
  wire::Reply to;
  to.set_answer(static_cast<wire::Reply::Answer>(from.answer));
  if (from.failure) {
    wire::Failure& failure = *to.mutable_failure();
    failure.set_task(from.failure->task);
    failure.set_rank(from.failure->rank);
    failure.set_kind(from.failure->kind);
    failure.set_reason(from.failure->reason);
    failure.set_step(from.failure->step);
    failure.set_phase(from.failure->phase);
  }
  to.set_kind(from.kind);
  to.set_message(from.message);
  to.set_hint(from.hint);
  to.set_epoch(from.epoch);
  to.set_all_done(from.all_done);
  for (const MissingNote& note : from.missing) {
    wire::Missing& missing = *to.add_missing();
    missing.set_task(note.task);
    missing.set_address(note.address);
    missing.set_seconds(note.seconds);
    missing.set_where(note.where);
  }
  to.mutable_values()->Assign(from.values.begin(), from.values.end());
  to.set_number(from.number);
  return to;
}

Reply from_wire(const wire::Reply& from) {
  Reply to{.answer = static_cast<Answer>(from.answer()),
           .kind = from.kind(),
           .message = from.message(),
           .hint = from.hint(),
           .epoch = from.epoch(),
           .all_done = from.all_done(),
           .values = {from.values().begin(), from.values().end()},
           .number = from.number()};
  if (from.has_failure()) {
    const wire::Failure& failure = from.failure();
    to.failure = {.task = failure.task(),
                  .rank = failure.rank(),
                  .kind = failure.kind(),
                  .reason = failure.reason(),
                  .step = failure.step(),
                  .phase = failure.phase()};
  }
  for (const wire::Missing& missing : from.missing()) {
    to.missing.push_back({missing.task(), missing.address(), missing.seconds(), missing.where()});
  }
  return to;
}

void quiet_grpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(
        [](gpr_log_func_args* line) { log::debug(std::string("gRPC: ") + line->message); });
  });
}

}  // namespace muster::inline v0_1::net
