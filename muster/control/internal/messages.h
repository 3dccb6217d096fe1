// Translates between plan's decisions and net's messages. Pure functions.
#pragma once

#include "muster/net/coordinator_messages.h"
#include "muster/plan/coordinator_state.h"

namespace muster::inline v0_1::control {

net::FailureNote to_note(const plan::Failure& failure);
plan::Failure from_note(const net::FailureNote& note);
net::Reply to_reply(const plan::Verdict& verdict);
plan::Verdict from_reply(const net::Reply& reply);
plan::Caller from_id(const net::MemberId& who);

}  // namespace muster::inline v0_1::control
