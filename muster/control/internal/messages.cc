#include "muster/control/internal/messages.h"

namespace muster::inline v0_1::control {
namespace {

// Numbers from another process: anything unknown must not become an enumerator that does not exist.
ErrorKind kind_from(int number) {
  return number >= 0 && number <= static_cast<int>(ErrorKind::kInternal)
             ? static_cast<ErrorKind>(number)
             : ErrorKind::kInternal;
}

plan::Phase phase_from(int number) {
  return number >= 0 && number <= static_cast<int>(plan::Phase::kDone)
             ? static_cast<plan::Phase>(number)
             : plan::Phase::kJoining;
}

}  // namespace

net::FailureNote to_note(const plan::Failure& failure) {
  return {.task = failure.task,
          .rank = failure.rank,
          .kind = static_cast<int>(failure.kind),
          .reason = failure.reason,
          .step = failure.step,
          .phase = static_cast<int>(failure.phase)};
}

plan::Failure from_note(const net::FailureNote& note) {
  return {.task = note.task,
          .rank = note.rank,
          .kind = kind_from(note.kind),
          .reason = note.reason,
          .step = note.step,
          .phase = phase_from(note.phase)};
}

net::Reply to_reply(const plan::Verdict& verdict) {
  using State = plan::Verdict::State;
  net::Reply reply;
  switch (verdict.state) {
    case State::kReady:
      reply.answer = net::Answer::kReady;
      break;
    case State::kWaiting:
      reply.answer = net::Answer::kWaiting;
      break;
    case State::kFailed:
      reply.answer = net::Answer::kFailed;
      break;
    case State::kRefused:
      reply.answer = net::Answer::kRefused;
      break;
  }
  if (verdict.failure) reply.failure = to_note(*verdict.failure);
  if (verdict.refusal) {
    reply.kind = static_cast<int>(verdict.refusal->kind());
    reply.message = verdict.refusal->message();
    reply.hint = verdict.refusal->hint();
  }
  for (const plan::MissingTask& task : verdict.missing) {
    reply.missing.push_back({task.task, task.address, task.seconds, task.where});
  }
  return reply;
}

plan::Verdict from_reply(const net::Reply& reply) {
  using State = plan::Verdict::State;
  plan::Verdict verdict;
  switch (reply.answer) {
    case net::Answer::kReady:
      verdict.state = State::kReady;
      break;
    case net::Answer::kWaiting:
      verdict.state = State::kWaiting;
      break;
    case net::Answer::kFailed:
      verdict.state = State::kFailed;
      break;
    default:
      verdict.state = State::kRefused;
      break;
  }
  if (reply.failure) verdict.failure = from_note(*reply.failure);
  if (verdict.state == State::kFailed && !verdict.failure) {
    verdict.failure = plan::Failure{
        .task = "chief:0", .kind = ErrorKind::kInternal, .reason = "it named no failure"};
  }
  if (verdict.state == State::kRefused) {
    verdict.refusal = Error(kind_from(reply.kind), reply.message, reply.hint);
  }
  for (const net::MissingNote& note : reply.missing)
    verdict.missing.push_back({note.task, note.address, note.seconds, note.where});
  return verdict;
}

plan::Caller from_id(const net::MemberId& who) {
  return {.task = who.task, .incarnation = who.incarnation};
}

}  // namespace muster::inline v0_1::control
