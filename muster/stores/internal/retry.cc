#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "muster/base/log.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/http_client.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// A number in [0, 1) that differs between processes and calls, so that those who failed together do
// not come back together.
double jitter() {
  static std::atomic<uint64_t> calls{0};
  return Random(derive_key(id_of("muster.stores.retry"),
                           {static_cast<uint64_t>(getpid()), calls.fetch_add(1)}))
      .uniform();
}

// How often something may be learned in one request, so that a server cannot lead us in circles.
constexpr int kMostLessons = 4;

}  // namespace

bool is_busy(const HttpResponse& response) {
  const int status = response.status;
  return response.transport == Transport::kAnswered &&
         (status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
          status == 504);
}

Result<HttpResponse> perform_with_retries(HttpClient& client, const std::string& what,
                                          const std::function<Result<HttpRequest>()>& make,
                                          const std::function<Verdict(const HttpResponse&)>& judge,
                                          Cancellation* cancellation) {
  const StoreOptions& limits = client.options();
  Clock& clock = *limits.clock;
  const TimePoint begin = clock.now();
  double delay = limits.first_delay_seconds;
  int lessons = 0;
  std::optional<TimePoint> failed;  // the first time
  for (int attempt = 1;; ++attempt) {
    Result<HttpRequest> request = make();
    if (!request.ok()) return request.error();
    HttpResponse response = client.perform(request.value(), cancellation);
    response.attempts = attempt;
    response.seconds = to_seconds(clock.now() - begin);
    if (response.ok() && !judge) return response;
    const Verdict verdict = judge ? judge(response) : Verdict::kByStatus;
    if (verdict == Verdict::kAtOnce && lessons++ < kMostLessons) continue;
    const bool again = verdict == Verdict::kAgain || verdict == Verdict::kAtOnce ||
                       (verdict == Verdict::kByStatus &&
                        (response.transport == Transport::kNoContact ||
                         response.transport == Transport::kBroken || is_busy(response)));
    if (!again) return response;
    if (!failed) failed = clock.now();
    const double failing = to_seconds(clock.now() - *failed);
    double wait = delay * (0.5 + 0.5 * jitter());
    if (const auto asked = parse_double(response.header("retry-after")); asked && *asked > 0)
      wait = std::max(wait, *asked);
    const double most = response.transport == Transport::kNoContact
                            ? std::min(limits.connect_retry_seconds, limits.retry_seconds)
                            : limits.retry_seconds;
    if (failing + wait > most) return response;
    const std::string why = response.transport == Transport::kAnswered
                                ? "status " + std::to_string(response.status)
                                : response.problem;
    // The first failures are everyday life; who waits for longer should know what for.
    const std::string line = "cannot " + what + " (" + why + "): trying again in " +
                             human_duration(wait) + ", for " + human_duration(most - failing) +
                             " at most";
    attempt == 4 ? log::warning(line) : log::debug(line);
    if (cancellation != nullptr) {
      if (!cancellation->sleep(clock, from_seconds(wait))) {
        response.transport = Transport::kCancelled;
        return response;
      }
    } else {
      clock.sleep_for(from_seconds(wait));
    }
    delay = std::min(delay * 2, limits.longest_delay_seconds);
  }
}

}  // namespace muster::inline v0_1::stores::internal
