#include "muster/stores/preemption_notice.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/stores/internal/cancellation.h"
#include "muster/stores/internal/http_client.h"
#include "muster/stores/internal/http_responses.h"

namespace muster::inline v0_1::stores {
namespace {

using internal::Cancellation;
using internal::HttpClient;
using internal::HttpRequest;
using internal::HttpResponse;
using nlohmann::json;

constexpr double kAnswerSeconds = 5;
// The first request of a machine's scheduled events switches them on, which takes up to two
// minutes.
constexpr double kAzureAnswerSeconds = 130;
constexpr const char* kWhat = "ask the metadata server for a preemption notice";

std::string text_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// One metadata server, asked by one thread at a time.
class Source {
 public:
  Source(HttpClient& client, const Cancellation& cancellation)
      : client_(client), cancellation_(cancellation) {}
  virtual ~Source() = default;
  virtual Result<std::string> look() = 0;
  virtual Seconds interval() const { return Seconds(1); }

 protected:
  HttpResponse ask(HttpRequest request, double seconds = kAnswerSeconds) {
    request.without_proxy = true;
    request.attempt_seconds = seconds;
    request.stall_seconds = seconds;
    return client_.perform(request, &cancellation_);
  }
  static Error error_of(const HttpResponse& response, const std::string& hint = "") {
    return internal::response_error(response, kWhat, "", "", hint);
  }

 private:
  HttpClient& client_;
  const Cancellation& cancellation_;
};

class GceSource final : public Source {
 public:
  GceSource(HttpClient& client, const Cancellation& cancellation, const Environment& environment)
      : Source(client, cancellation),
        base_("http://" + environment.get_or("GCE_METADATA_HOST", "metadata.google.internal") +
              "/computeMetadata/v1/instance/") {}

  Result<std::string> look() override {
    // A machine that migrates while it runs has another value, and goes on.
    for (const auto& [key, taken] :
         {std::pair("preempted", "TRUE"),
          std::pair("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE")}) {
      const HttpResponse answer = ask({.url = base_ + key, .headers = {"Metadata-Flavor: Google"}});
      if (!answer.ok()) return error_of(answer);
      if (trim(answer.body) == taken) return fmt::format("instance/{} is {}", key, taken);
    }
    return std::string();
  }

 private:
  const std::string base_;
};

class AwsSource final : public Source {
 public:
  AwsSource(HttpClient& client, const Cancellation& cancellation, const Environment& environment)
      : Source(client, cancellation),
        base_(environment.get_or("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254") +
              "/latest/") {}

  Seconds interval() const override { return Seconds(5); }

  Result<std::string> look() override {
    HttpResponse answer = ask_with_token();
    // The token is over.
    if (answer.status == 401 && !std::exchange(token_, "").empty()) answer = ask_with_token();
    // There is nothing to read while nothing is planned.
    if (answer.status == 404) return std::string();
    if (!answer.ok()) return error_of(answer);
    const Result<json> action = parse_json(answer.body, "spot/instance-action");
    if (!action.ok()) return action.error();
    if (!action.value().is_object())
      return invalid_argument("spot/instance-action is no JSON object");
    return fmt::format("spot/instance-action is '{}' at {}", text_member(action.value(), "action"),
                       text_member(action.value(), "time"));
  }

 private:
  HttpResponse ask_with_token() {
    if (token_.empty()) {
      HttpResponse token = ask({.method = "PUT",
                                .url = base_ + "api/token",
                                .headers = {"X-aws-ec2-metadata-token-ttl-seconds: 21600"}});
      if (!token.ok()) {
        if (token.status == 404) token.status = 400;  // of this address 404 does not say "none"
        return token;
      }
      token_ = token.body;
    }
    return ask({.url = base_ + "meta-data/spot/instance-action",
                .headers = {"X-aws-ec2-metadata-token: " + token_}});
  }

  const std::string base_;
  std::string token_{};
};

class AzureSource final : public Source {
 public:
  AzureSource(HttpClient& client, const Cancellation& cancellation, const Environment& environment)
      : Source(client, cancellation),
        base_(environment.get_or("AZURE_POD_IDENTITY_AUTHORITY_HOST", "http://169.254.169.254") +
              "/metadata/") {}

  Result<std::string> look() override {
    // Events of all machines of a group come to each of them.
    if (name_.empty()) {
      const HttpResponse name =
          ask({.url = base_ + "instance/compute/name?api-version=2021-02-01&format=text",
               .headers = {"Metadata: true"}});
      if (!name.ok()) return error_of(name);
      name_ = trim(name.body);
    }
    const HttpResponse answer = ask(
        {.url = base_ + "scheduledevents?api-version=2020-07-01", .headers = {"Metadata: true"}},
        kAzureAnswerSeconds);
    if (!answer.ok()) return error_of(answer);
    const Result<json> parsed = parse_json(answer.body, "scheduledevents");
    if (!parsed.ok()) return parsed.error();
    const json events =
        parsed.value().is_object() ? parsed.value().value("Events", json::array()) : json();
    if (!events.is_array()) return invalid_argument("scheduledevents has no array of events");
    for (const json& event : events) {
      if (!event.is_object() || !concerns_us(event)) continue;
      const std::string type = text_member(event, "EventType");
      const std::string when = text_member(event, "NotBefore");
      return fmt::format("event '{}' of {} is {}{}", type, name_,
                         to_lower(text_member(event, "EventStatus")),
                         when.empty() ? "" : ", not before " + when);
    }
    return std::string();
  }

 private:
  // A Freeze is a pause of seconds.
  bool concerns_us(const json& event) const {
    const std::string type = text_member(event, "EventType");
    if (type != "Preempt" && type != "Terminate" && type != "Reboot" && type != "Redeploy")
      return false;
    const json resources = event.value("Resources", json::array());
    return std::ranges::any_of(resources, [&](const json& resource) {
      return resource.is_string() && resource.get<std::string>() == name_;
    });
  }

  const std::string base_;
  std::string name_{};
};

std::unique_ptr<Source> source_of(const std::string& cloud, HttpClient& client,
                                  const Cancellation& cancellation,
                                  const Environment& environment) {
  if (cloud == "gce") return std::make_unique<GceSource>(client, cancellation, environment);
  if (cloud == "aws") return std::make_unique<AwsSource>(client, cancellation, environment);
  if (cloud == "azure") return std::make_unique<AzureSource>(client, cancellation, environment);
  throw invalid_argument(fmt::format("there is no cloud '{}' that announces preemption", cloud),
                         "use gce, aws or azure");
}

// A signal to the process is for the threads that wait for one.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

const std::vector<std::string>& notifying_clouds() {
  static const std::vector<std::string> all = {"gce", "aws", "azure"};
  return all;
}

struct PreemptionNotice::Impl {
  Impl(const std::string& cloud, const Environment& environment, const StoreOptions& options)
      : client(options), source(source_of(cloud, client, cancellation, environment)) {}

  Cancellation cancellation{};
  HttpClient client;
  const std::unique_ptr<Source> source;
};

PreemptionNotice::PreemptionNotice(const std::string& cloud, const Environment& environment,
                                   const StoreOptions& options)
    : impl_(std::make_unique<Impl>(cloud, environment, options)) {}
PreemptionNotice::~PreemptionNotice() = default;

Result<std::string> PreemptionNotice::look() { return impl_->source->look(); }
void PreemptionNotice::cancel() { impl_->cancellation.cancel(); }
Seconds PreemptionNotice::interval() const { return impl_->source->interval(); }

struct PreemptionWatch::Impl {
  Impl(const std::string& cloud_, const Environment& environment,
       std::function<void(const std::string&)> on_notice_, const StoreOptions& options)
      : cloud(cloud_),
        on_notice(std::move(on_notice_)),
        clock(*options.clock),
        notice(cloud_, environment, options) {
    const NoSignals inherited;
    thread = std::thread([this] { watch(); });
  }
  ~Impl() {
    ended.cancel();
    notice.cancel();
    thread.join();
  }

  void watch() {
    bool failing = false;
    do {
      const Result<std::string> seen = notice.look();
      if (ended.cancelled()) return;
      if (!seen.ok()) {
        if (!std::exchange(failing, true)) {
          log::warning(
              fmt::format("no preemption notice of {} can be read now; the run continues, and asks "
                          "again every {:g} s: {}",
                          cloud, notice.interval().count(), seen.error().message()));
        }
      } else if (!seen.value().empty()) {
        return on_notice(seen.value());
      } else if (std::exchange(failing, false)) {
        log::info("the metadata server of " + cloud + " answers again");
      }
    } while (ended.sleep(clock, from_seconds(notice.interval().count())));
  }

  const std::string cloud;
  const std::function<void(const std::string&)> on_notice;
  Clock& clock;
  PreemptionNotice notice;
  Cancellation ended{};
  std::thread thread{};
};

PreemptionWatch::PreemptionWatch(const std::string& cloud, const Environment& environment,
                                 std::function<void(const std::string&)> on_notice,
                                 const StoreOptions& options)
    : impl_(std::make_unique<Impl>(cloud, environment, std::move(on_notice), options)) {}
PreemptionWatch::~PreemptionWatch() = default;

}  // namespace muster::inline v0_1::stores
