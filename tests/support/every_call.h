// Every call of the coordinator's service, made by a client that knows the names of its tasks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "muster/net/coordinator_channel.h"

namespace muster::inline v0_1 {

// The answer to each call, by its name; watch() streams and is not among them. The calls claim to
// come from `who`, and each waits `seconds` at most.
inline std::vector<std::pair<std::string, Result<net::Reply>>> make_every_call(
    net::CoordinatorChannel& channel, const plan::Caller& who, double seconds = 30) {
  using net::StoreOperation;
  std::vector<std::pair<std::string, Result<net::Reply>>> replies;
  const auto note = [&](const std::string& call, Result<net::Reply> reply) {
    replies.emplace_back(call, std::move(reply));
  };
  note("join", channel.join({.who = who, .rank = 1, .world_size = 2}, seconds));
  note("join as an observer",
       channel.join({.who = {"evaluator:0", 7}, .rank = -1, .world_size = 2}, seconds));
  note("beat", channel.beat({.who = who}, seconds));
  note("declare_model",
       channel.declare_model({.who = who, .signature = {"w [1] float32"}}, seconds));
  note("barrier", channel.barrier({.who = who, .name = "round"}, seconds));
  for (const auto& [call, operation] :
       {std::pair("set", StoreOperation::kSet), std::pair("add", StoreOperation::kAdd),
        std::pair("erase", StoreOperation::kErase), std::pair("check", StoreOperation::kCheck),
        std::pair("wait", StoreOperation::kWait)}) {
    const net::StoreRequest request{
        .who = who, .operation = operation, .keys = {"go/1"}, .value = "no"};
    note(call, channel.store(request, seconds));
  }
  note("fail", channel.fail({.who = who, .reason = "because"}, seconds));
  note("fail to join",
       channel.fail({.who = who, .reason = "because", .rank = 1, .world_size = 2}, seconds));
  note("done", channel.goodbye({.who = who, .leaving = false}, seconds));
  note("leave", channel.goodbye({.who = who, .leaving = true}, seconds));
  return replies;
}

}  // namespace muster::inline v0_1
