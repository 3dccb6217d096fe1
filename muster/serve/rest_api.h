// The paths of TensorFlow Serving's REST API, for one model:
//
//   POST /v1/models/NAME[/versions/N]:predict, :classify, :regress
//   GET  /v1/models/NAME[/versions/N]                  which versions there are
//   GET  /v1/models/NAME[/versions/N]/metadata         its signatures
//   GET  /metrics, /monitoring/prometheus/metrics      for Prometheus
//   GET  /healthz                                      200 while the process lives
//   GET  /readyz                                       200 while it wants requests, else 503
//
// An error is {"error": "..."}: 400 for a wrong body, 404 for an unknown model, version or path,
// 405 for another method, 429 when too many wait, 503 when there is no answer in time or no version
// yet, 500 when the model fails. 429 and 503 have Retry-After. Thread safety: any thread may ask.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "muster/serve/http.h"
#include "muster/serve/model_versions.h"

namespace muster::inline v0_1::serve {

class RestApi {
 public:
  // `name` is the model's name in paths. The arguments must outlive this.
  RestApi(std::string name, ModelVersions& versions, ServingMetrics& metrics)
      : name_(std::move(name)), versions_(versions), metrics_(metrics) {}

  // Answers a request. Nothing is thrown.
  HttpAnswer answer(const HttpRequest& request);

  // From now on /readyz says that no more requests are wanted.
  void stop_wanting() { wanting_.store(false); }

 private:
  // The target of a path.
  struct Target {
    std::string name{};
    std::string version{};  // empty: the newest
    std::string verb{};     // "predict" and so on, "metadata", or empty: the status
  };

  HttpAnswer route(const HttpRequest& request);
  HttpAnswer fixed_path(const HttpRequest& request);
  // Reads the part after /v1/models/. Throws NotFound for a path without a meaning.
  static Target target_of(std::string_view rest);
  // Throws NotFound for a version that is not loaded, Unavailable while none is.
  std::shared_ptr<ServedVersion> version_of(const Target& target) const;
  HttpAnswer infer(Verb verb, const Target& target, const HttpRequest& request);
  HttpAnswer status(const Target& target) const;
  HttpAnswer metadata(const Target& target) const;

  const std::string name_;
  ModelVersions& versions_;
  ServingMetrics& metrics_;
  std::atomic<bool> wanting_{true};
};

// Returns the answer {"error": "message; hint"} with the status that fits the kind of the error.
HttpAnswer answer_of(const Error& error);

}  // namespace muster::inline v0_1::serve
