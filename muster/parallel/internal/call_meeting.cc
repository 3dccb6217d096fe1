#include "muster/parallel/internal/call_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

using nlohmann::json;

// The numbers of an announcement, which are added up. Of what must be equal there is the sum and
// the sum of the squares.
enum Number : int64_t {
  kActive,
  kCode,
  kCodeSquare,
  kStop,
  kWeights,
  kWeightsSquare,
  kForwards,
  kForwardsSquare,
  kJoinedForwards,
  kNumbers
};

constexpr int kNumberBits = 10, kTextBits = 16;

// One number of a call: kind, number, and some bits of its words.
int64_t code_of(const CallMeeting::Call& call) {
  const auto text = static_cast<int64_t>(crc32c(bytes_of(call.text)) & ((1U << kTextBits) - 1));
  return ((static_cast<int64_t>(call.kind) << kNumberBits | call.number) << kTextBits) | text;
}

void set(int64_t* sums, Number sum, int64_t value) {
  sums[sum] = value;
  sums[sum + 1] = static_cast<int64_t>(static_cast<uint64_t>(value) * static_cast<uint64_t>(value));
}

// Of n numbers the sum of (a - b)^2 over all pairs, which is n times the sum of their squares less
// the square of their sum. It is right modulo 2^64.
uint64_t spread(const int64_t* sums, Number sum, int64_t n) {
  const auto value = static_cast<uint64_t>(sums[sum]);
  return static_cast<uint64_t>(n) * static_cast<uint64_t>(sums[sum + 1]) - value * value;
}

}  // namespace

void CallMeeting::send() {
  numbers_ = torch::zeros({kNumbers}, at::kLong);
  auto* const numbers = numbers_.data_ptr<int64_t>();
  numbers[kStop] = asked_to_stop_() ? 1 : 0;
  if (joined_) {
    numbers[kJoinedForwards] = call_.forwards;
  } else {
    numbers[kActive] = 1;
    set(numbers, kCode, code_of(call_));
    set(numbers, kWeights, call_.sample.code);
    set(numbers, kForwards, call_.forwards);
  }
  replica_.group().explained([&] { work_ = replica_.communicator()->all_reduce(numbers_); });
}

void CallMeeting::begin(const Call& call) {
  call_ = call;
  joined_ = false;
  send();
}

CallMeeting::Met CallMeeting::end() {
  try {
    replica_.group().explained([&] { work_.wait(); });
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
    throw Error(error.kind(),
                fmt::format("{} waited for the others in {}: {}", worker_name(), call_.text,
                            error.message()),
                error.hint());
  }
  const auto* const numbers = numbers_.data_ptr<int64_t>();
  stop_ = numbers[kStop] > 0;
  const int64_t active = numbers[kActive];
  if (active == 0) return {};
  if (spread(numbers, kCode, active) != 0) throw_different();
  const int64_t code = numbers[kCode] / active >> kTextBits;
  const Met met{.active = static_cast<int>(active),
                .kind = static_cast<Kind>(code >> kNumberBits),
                .number = static_cast<int>(code & ((1 << kNumberBits) - 1))};
  if (met.kind == Kind::kBackward) {
    compare_weights(active);
    compare_forwards(active, met.number);
  }
  return met;
}

CallMeeting::Met CallMeeting::meet_joined(int64_t forwards) {
  call_ = {.text = "the end of its data, in join() or at the end of the Cluster",
           .forwards = forwards};
  joined_ = true;
  send();
  return end();
}

void CallMeeting::refuse_together(const std::string& message, const std::string& hint) {
  try {
    replica_.group().barrier("refused");
  } catch (const Error&) {
    // Another worker has passed it and has ended the run already.
  }
  throw invalid_argument(message, hint);
}

void CallMeeting::throw_different() {
  // All see the same sums, so all come here.
  const std::vector<std::string> calls = replica_.group().gather_text("call", call_.text);
  const std::vector<std::string> names = replica_.group().gather_text("name", worker_name());
  const auto other =
      std::ranges::find_if(calls, [&](const std::string& call) { return call != calls.front(); });
  refuse_together(
      fmt::format("workers came to different calls: {} to {}, {} to {}", names.front(),
                  calls.front(), names[static_cast<size_t>(other - calls.begin())], *other),
      "every worker makes the calls of its Cluster, and every backward() through a module of "
      "data_parallel(), in the same order; keep them out of `if (cluster.is_chief())`");
}

void CallMeeting::compare_weights(int64_t active) {
  // One worker that differs by the tolerance from all others makes active - 1 pairs.
  constexpr auto kSquare =
      static_cast<uint64_t>(WeightSample::kTolerance * WeightSample::kTolerance);
  if (spread(numbers_.data_ptr<int64_t>(), kWeights, active) >
      static_cast<uint64_t>(active - 1) * kSquare)
    throw_weights_differ();
}

void CallMeeting::compare_forwards(int64_t active, int number) {
  const auto* const numbers = numbers_.data_ptr<int64_t>();
  const bool here = spread(numbers, kForwards, active) != 0 && told_.insert(number).second;
  const bool joined = numbers[kJoinedForwards] != 0 && !std::exchange(told_joined_, true);
  if (here || joined) warn_of_left_out();
}

struct CallMeeting::Account {
  std::string worker{}, call{};
  bool joined = false;
  int64_t forwards = 0, code = 0;
  std::string weight{};
  std::string size{};
};

std::vector<CallMeeting::Account> CallMeeting::gather_accounts() {
  const json mine = {{"worker", worker_name()},
                     {"call", call_.text},
                     {"joined", joined_},
                     {"forwards", call_.forwards},
                     {"code", call_.sample.code},
                     {"weight", call_.sample.name},
                     {"size", fmt::format("{:.9g}", call_.sample.size)}};  // JSON has no NaN
  std::vector<Account> accounts;
  const std::string packed = mine.dump(-1, ' ', false, json::error_handler_t::replace);
  for (const std::string& text : replica_.group().gather_text("account", packed)) {
    const json account = json::parse(text);
    accounts.push_back({.worker = account.at("worker"),
                        .call = account.at("call"),
                        .joined = account.at("joined"),
                        .forwards = account.at("forwards"),
                        .code = account.at("code"),
                        .weight = account.at("weight"),
                        .size = account.at("size")});
  }
  return accounts;
}

void CallMeeting::throw_weights_differ() {
  std::vector<Account> accounts = gather_accounts();
  std::erase_if(accounts, &Account::joined);
  const Account& first = accounts.front();
  const auto difference = [&](const Account& other) { return std::abs(other.code - first.code); };
  const Account& other = *std::ranges::max_element(accounts, {}, difference);
  std::string forwards;
  if (first.forwards != other.forwards) {
    forwards = fmt::format("; forwards since the last backward(): {} on {}, {} on {}",
                           first.forwards, first.worker, other.forwards, other.worker);
  }
  refuse_together(
      fmt::format("workers have different weights in {}: the mean size of numbers of {} is {} on "
                  "{}, {} on {}{}",
                  first.call, first.weight, first.size, first.worker, other.size, other.worker,
                  forwards),
      "a worker left out a backward(), made a step() that the others did not make, has another "
      "learning rate, or changed or loaded weights by itself; every worker makes the same "
      "backward() and step() calls in the same order");
}

void CallMeeting::warn_of_left_out() {
  const std::vector<Account> accounts = gather_accounts();
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Account& each : accounts) {
    if (!each.joined) least = std::min(least, each.forwards);
  }
  // A loop whose number of forwards is free, as in an episode of a game, has no such multiples.
  const auto regular = [&](const Account& each) {
    return each.joined || (least > 0 && each.forwards % least == 0);
  };
  if (!std::ranges::all_of(accounts, regular)) return;
  const Account& usual = *std::ranges::find_if(
      accounts, [&](const Account& each) { return !each.joined && each.forwards == least; });
  for (const Account& each : accounts) {
    if (each.joined ? each.forwards == 0 : each.forwards == least) continue;
    if (!replica_.is_chief() && each.worker != worker_name()) continue;
    log::warning(fmt::format(
        "{} seems to have left out a backward(): it came to {} after {} forwards in training "
        "without a backward(), {} to {} after {}. The weights are still equal, and the run goes "
        "on: each backward() of a worker is averaged with the next of the others. Call modules "
        "under torch::NoGradGuard where no backward() follows",
        each.worker, each.call, each.forwards, usual.worker, usual.call, usual.forwards));
  }
}

}  // namespace muster::inline v0_1::internal
