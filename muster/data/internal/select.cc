#include "muster/data/internal/select.h"


#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

int64_t SelectingStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  while (got < count && !run_.stopping()) {
    // No more than are wanted: what passes is handed on, so the input stands behind it.
    const int64_t more = input().read(out + got, count - got);
    if (more == 0) break;
    int64_t kept = got;
    for (int64_t i = got; i < got + more; ++i) {
      if (!passes(out[i])) continue;
      if (kept != i) out[kept] = std::move(out[i]);
      ++kept;
    }
    got = kept;
  }
  return got;
}

int64_t SelectingStream::skip(int64_t count) {
  int64_t skipped = 0;
  Item item;
  while (skipped < count && !run_.stopping() && input().read(&item, 1) == 1) {
    skipped += passes(item) ? 1 : 0;
  }
  return skipped;
}

bool FilterStream::passes(Item& item) {
  if (item.error != nullptr) return true;
  const Filter& filter = std::get<Filter>(node_->spec);
  try {
    item.settle();
    const torch::NoGradGuard no_grad;
    return filter.fn(item.element);
  } catch (...) {
    item.error =
        current_failure(fmt::format("{} failed on {} (pass {}), {}, in {}", node_->name,
                                    describe_place(item.from, *node_->input()), item.from.tag.run,
                                    item.element.describe(), node_->description));
    return true;
  }
}

bool IgnoreErrorsStream::passes(Item& item) {
  if (item.error == nullptr) {
    in_a_row_ = 0;
    return true;
  }
  if (++in_a_row_ == kMostInARow) {
    in_a_row_ = 0;
    try {
      std::rethrow_exception(item.error);
    } catch (...) {
      item.error = current_failure(
          fmt::format("ignore_errors: {} elements in a row cannot be read, the last of them "
                      "because",
                      kMostInARow));
    }
    return true;
  }
  ++ignored_;
  // Each of the first, then fewer and fewer: 16, 32, 64 …
  constexpr int64_t kAll = 10;
  if (log_warning_ && (ignored_ <= kAll || (ignored_ & (ignored_ - 1)) == 0)) {
    try {
      std::rethrow_exception(item.error);
    } catch (const std::exception& error) {
      log::warning(fmt::format("input: element ignored ({} so far): {}", ignored_, error.what()));
    }
  }
  return false;
}

int64_t EnumerateStream::read(Item* out, int64_t count) {
  const int64_t got = input().read(out, count);
  for (int64_t i = 0; i < got; ++i, ++count_) {
    if (out[i].error != nullptr) continue;
    out[i].settle();
    out[i].element = Element::tuple(
        {Element(torch::scalar_tensor(start_ + count_, at::kLong)), std::move(out[i].element)});
  }
  return got;
}

int64_t EnumerateStream::skip(int64_t count) {
  const int64_t skipped = input().skip(count);
  count_ += skipped;
  return skipped;
}

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

int64_t AssertCardinalityStream::read(Item* out, int64_t count) {
  return pass(
      count, [&](int64_t from, int64_t n) { return input().read(out + from, n); },
      [&](int64_t at, bool ended) {
        out[at] = {};
        out[at].error = std::make_exception_ptr(invalid_argument(
            fmt::format("assert_cardinality({}): the data set has {} elements",
                        expected_ == kInfinite ? "kInfinite" : std::to_string(expected_),
                        ended ? fmt::format("only {}", count_) : "more"),
            "give the count there is, or leave assert_cardinality() away"));
      });
}

int64_t AssertCardinalityStream::skip(int64_t count) {
  return pass(
      count, [&](int64_t, int64_t n) { return input().skip(n); }, [](int64_t, bool) {});
}

}  // namespace muster::inline v0_1::data::internal
