#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/files/shared_patience.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// A number in [0, 1) that differs between processes and calls, so that clients that failed together
// do not come back together.
double jitter() {
  static std::atomic<uint64_t> calls{0};
  return Random(derive_key(id_of("muster.stores.retry"),
                           {static_cast<uint64_t>(getpid()), calls.fetch_add(1)}))
      .uniform();
}

// How often something may be learned in one request, so that a server cannot lead us in circles.
constexpr int kMostLessons = 4;

// Seconds of failing before the log says so.
constexpr double kSilentSeconds = 1;
// Seconds between two lines. The tries are up to 10 s apart: the lines come about every 15 s.
constexpr double kSecondsBetweenWarnings = 10;

}  // namespace

bool is_busy(const HttpResponse& response) {
  const int status = response.status;
  return response.transport == Transport::kAnswered &&
         (status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
          status == 504);
}

bool HttpClient::may_warn() {
  const TimePoint now = options_.clock->now();
  std::lock_guard lock(mutex_);
  if (warned_ && now - *warned_ < from_seconds(kSecondsBetweenWarnings)) return false;
  warned_ = now;
  return true;
}

Result<HttpResponse> perform_with_retries(HttpClient& client, const Retried& request) {
  const StoreOptions& limits = client.options();
  Clock& clock = *limits.clock;
  const TimePoint begin = clock.now();
  double delay = limits.first_delay.count();
  int lessons = 0;
  std::optional<TimePoint> failed;  // the first time
  const std::shared_ptr<SharedPatience::Outage> outage = SharedPatience::current();
  bool warned = false;
  for (int attempt = 1;; ++attempt) {
    Result<HttpRequest> made = request.make();
    if (!made.ok()) return made.error();
    const TimePoint tried = clock.now();
    HttpResponse response = client.perform(made.value(), request.cancellation);
    if (request.amend) request.amend(response);
    response.attempts = attempt;
    response.seconds = to_seconds(clock.now() - begin);
    const RetryDecision verdict = request.judge   ? request.judge(response)
                                  : response.ok() ? RetryDecision::kFinal
                                                  : RetryDecision::kByStatus;
    if (verdict == RetryDecision::kAtOnce && lessons++ < kMostLessons) continue;
    const bool again = verdict == RetryDecision::kAgain || verdict == RetryDecision::kAtOnce ||
                       (verdict == RetryDecision::kByStatus &&
                        (response.transport == Transport::kNoContact ||
                         response.transport == Transport::kBroken || is_busy(response)));
    if (!again) {
      if (outage && response.transport == Transport::kAnswered) outage->note_answer();
      if (warned && response.transport == Transport::kAnswered)
        log::info("the server answers again: " + request.what + " took " +
                  human_duration(response.seconds));
      return response;
    }
    if (!failed) {
      // A request that stood still has failed for this long already.
      failed = response.timed_out
                   ? std::max(tried, clock.now() - from_seconds(limits.stall_timeout))
                   : clock.now();
      if (outage) failed = outage->note_failure(*failed);
    }
    const double failing = to_seconds(clock.now() - *failed);
    double wait = delay * (0.5 + 0.5 * jitter());
    if (const auto asked = parse_double(response.header("retry-after")); asked && *asked > 0)
      wait = std::max(wait, *asked);
    const bool unknown =
        response.transport == Transport::kNoContact && !client.knows(made.value().url);
    const double most = unknown
                            ? std::min(limits.connect_retry_timeout, limits.retry_timeout).count()
                            : limits.retry_timeout.count();
    if (failing + wait > most) return response;
    // The first failures are normal; a user who waits for longer should learn the reason. A try
    // whose time ran out was a long wait already.
    const bool is_long = response.timed_out || failing + wait >= kSilentSeconds;
    if (is_long && client.may_warn()) {
      warned = true;
      const Error error = request.error_of ? request.error_of(response)
                                           : response_error(response, request.what, "", "", "");
      log::warning(error.message() + "; retrying for " + human_duration(most - failing) +
                   " at most");
    }
    if (request.cancellation != nullptr) {
      if (!request.cancellation->sleep(clock, from_seconds(wait))) {
        response.transport = Transport::kCancelled;
        return response;
      }
    } else {
      clock.sleep_for(from_seconds(wait));
    }
    delay = std::min(delay * 2, limits.longest_delay.count());
  }
}

}  // namespace muster::inline v0_1::stores::internal
