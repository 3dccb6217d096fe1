#include "muster/parallel/internal/call_meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

// The numbers of an announcement, which are added up.
enum Number : int64_t { kActive, kCode, kSquare, kStop, kNumbers };

constexpr int kNumberBits = 10, kTextBits = 16;

// One number of a call: kind, number, and some bits of its words.
int64_t code_of(const CallMeeting::Call& call) {
  const auto text = static_cast<int64_t>(crc32c(bytes_of(call.text)) & ((1U << kTextBits) - 1));
  return ((static_cast<int64_t>(call.kind) << kNumberBits | call.number) << kTextBits) | text;
}

}  // namespace

void CallMeeting::send(int64_t active, int64_t code) {
  numbers_ = torch::zeros({kNumbers}, at::kLong);
  auto* const numbers = numbers_.data_ptr<int64_t>();
  numbers[kActive] = active;
  numbers[kCode] = active * code;
  numbers[kSquare] = active * code * code;
  numbers[kStop] = asked_to_stop_() ? 1 : 0;
  replica_.group().explained([&] { work_ = replica_.communicator()->all_reduce(numbers_); });
}

void CallMeeting::begin(const Call& call) {
  text_ = call.text;
  send(1, code_of(call));
}

CallMeeting::Met CallMeeting::end() {
  replica_.group().explained([&] { work_.wait(); });
  const auto* const numbers = numbers_.data_ptr<int64_t>();
  stop_ = numbers[kStop] > 0;
  const int64_t active = numbers[kActive];
  if (active == 0) return {};
  // Numbers are all equal exactly where the mean of their squares is the square of their mean.
  // Both are right modulo 2^64.
  const auto square = [](int64_t value) { return static_cast<uint64_t>(value) * uint64_t(value); };
  if (uint64_t(active) * uint64_t(numbers[kSquare]) != square(numbers[kCode])) throw_different();
  const int64_t code = numbers[kCode] / active >> kTextBits;
  return {.active = static_cast<int>(active),
          .kind = static_cast<Kind>(code >> kNumberBits),
          .number = static_cast<int>(code & ((1 << kNumberBits) - 1))};
}

CallMeeting::Met CallMeeting::meet_joined() {
  text_ = "the end of its data, in join() or at the end of the Cluster";
  send(0, 0);
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
  const std::vector<std::string> calls = replica_.group().gather_text("call", text_);
  const std::vector<std::string> names =
      replica_.group().gather_text("name", replica_.place().name());
  const auto other =
      std::ranges::find_if(calls, [&](const std::string& call) { return call != calls.front(); });
  refuse_together(
      fmt::format("workers came to different calls: {} to {}, {} to {}", names.front(),
                  calls.front(), names[static_cast<size_t>(other - calls.begin())], *other),
      "every worker makes the calls of its Cluster, and every backward() through a module of "
      "data_parallel(), in the same order; keep them out of `if (cluster.is_chief())`");
}

}  // namespace muster::inline v0_1::internal
