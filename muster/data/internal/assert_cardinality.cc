#include "muster/data/internal/assert_cardinality.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "muster/base/error.h"
#include "muster/data/dataset.h"

namespace muster::inline v0_1::data::internal {

template <typename Take, typename Fail>
int64_t AssertCardinalityStream::pass(int64_t count, Take take, Fail fail) {
  int64_t got = 0;
  bool ended = false;
  while (got < count && !ended) {
    // The first that is too many comes alone.
    const int64_t left = count - got;
    const int64_t most =
        expected_ < 0 || told_ ? left : std::clamp<int64_t>(expected_ - count_, 1, left);
    int64_t more = take(got, most);
    count_ += more;
    ended = more < most;
    const bool wrong =
        ended ? expected_ == kInfinite || count_ < expected_ : expected_ >= 0 && count_ > expected_;
    if (wrong && !told_) {
      told_ = true;
      fail(ended ? got + more++ : got, ended);
    }
    got += more;
  }
  return got;
}

std::exception_ptr AssertCardinalityStream::wrong_count(bool ended) const {
  try {
    throw invalid_argument(
        fmt::format("assert_cardinality({}): the data set has {} elements",
                    expected_ == kInfinite ? "kInfinite" : std::to_string(expected_),
                    ended ? fmt::format("only {}", count_) : "more"),
        "give the count there is, or leave assert_cardinality() away");
  } catch (...) {
    return current_loss();
  }
}

int64_t AssertCardinalityStream::read(StreamElement* out, int64_t count) {
  return pass(
      count, [&](int64_t from, int64_t n) { return input().read(out + from, n); },
      [&](int64_t at, bool ended) { become_error(out[at], wrong_count(ended)); });
}

int64_t AssertCardinalityStream::skip(int64_t count, std::exception_ptr* lost) {
  return pass(
      count, [&](int64_t, int64_t n) { return input().skip(n, lost); },
      [&](int64_t, bool ended) { note_lost(wrong_count(ended), lost); });
}

}  // namespace muster::inline v0_1::data::internal
