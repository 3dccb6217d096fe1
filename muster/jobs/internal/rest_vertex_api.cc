#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/jobs/internal/answer.h"
#include "muster/jobs/internal/tool.h"
#include "muster/jobs/internal/vertex_api.h"
#include "muster/stores/google_api.h"

namespace muster::inline v0_1::jobs::internal {
namespace {

using nlohmann::json;

class RestVertexApi final : public VertexApi {
 public:
  RestVertexApi(const Environment& environment, RestEndpoints endpoints)
      : google_(environment, stores::StoreOptions::from(environment)),
        endpoints_(std::move(endpoints)),
        project_(environment.get_or("GOOGLE_CLOUD_PROJECT",
                                    environment.get_or("CLOUDSDK_CORE_PROJECT", ""))) {}

  std::string own_project() const override { return project_; }

  std::string create(const VertexPlace& place, const VertexJob& job,
                     const std::string& /*folder*/) override {
    const std::string name = job.resource.at("displayName");
    if (place.project.empty()) {
      throw invalid_argument(
          fmt::format("cannot create the job '{}' on Vertex AI: no project is named", name),
          "add --project=PROJECT to the command, or name it for all: export "
          "GOOGLE_CLOUD_PROJECT=PROJECT; gcloud, which is not installed here, would know yours");
    }
    const Answer made = call(
        {.what = fmt::format("create the job '{}' on Vertex AI", name),
         .method = "POST",
         .url = fmt::format("{}/v1/projects/{}/locations/{}/{}", address_of(place), place.project,
                            place.region, job.tuning ? "hyperparameterTuningJobs" : "customJobs"),
         .body = job.resource.dump()});
    return made.text("/name");
  }

  std::vector<std::string> find(const VertexPlace& place, bool tuning, const std::string& label,
                                const std::string& value) override {
    const char* kind = tuning ? "hyperparameterTuningJobs" : "customJobs";
    // The value of a label needs no escape in an address, and the quotes around it do.
    const Answer found = call(
        {.what = fmt::format("ask Vertex AI for jobs with the label {}={}", label, value),
         .url = fmt::format("{}/v1/projects/{}/locations/{}/{}?filter=labels.{}%3D%22{}%22",
                            address_of(place), place.project, place.region, kind, label, value)});
    return found.json().contains(kind) ? names_in(found.list(fmt::format("/{}", kind)))
                                       : std::vector<std::string>{};
  }

  json get(const VertexPlace& place, const std::string& name) override {
    const Answer found = call({.what = "ask Vertex AI for the job " + name,
                               .url = fmt::format("{}/v1/{}", address_of(place), name)});
    (void)found.text("/state");
    return found.json();
  }

  void cancel(const VertexPlace& place, const std::string& name) override {
    call({.what = "cancel the job " + name,
          .method = "POST",
          .url = fmt::format("{}/v1/{}:cancel", address_of(place), name),
          .body = "{}"});
  }

  std::vector<json> log_entries(const VertexPlace& place, const std::string& filter,
                                int most) override {
    const std::string logging =
        endpoints_.logging.empty() ? "https://logging.googleapis.com" : endpoints_.logging;
    const json request = {{"resourceNames", {"projects/" + place.project}},
                          {"filter", filter},
                          {"orderBy", "timestamp asc"},
                          {"pageSize", most}};
    const Answer answer = call({.what = "read the log of the job",
                                .method = "POST",
                                .url = logging + "/v2/entries:list",
                                .body = request.dump()});
    // An empty list is left out.
    if (answer.json().is_object() && !answer.json().contains("entries")) return {};
    return answer.list("/entries").get<std::vector<json>>();
  }

 private:
  std::string address_of(const VertexPlace& place) const {
    return endpoints_.vertex.empty()
               ? fmt::format("https://{}-aiplatform.googleapis.com", place.region)
               : endpoints_.vertex;
  }

  Answer call(const stores::GoogleApi::Call& asked) {
    const std::string body = google_.send(asked).value();
    return {"cannot " + asked.what, asked.method + " " + asked.url, body};
  }

  stores::GoogleApi google_;
  RestEndpoints endpoints_;
  std::string project_;
};

}  // namespace

std::unique_ptr<VertexApi> rest_vertex_api(const Environment& environment,
                                           const RestEndpoints& endpoints) {
  return std::make_unique<RestVertexApi>(environment, endpoints);
}

std::unique_ptr<VertexApi> vertex_api(const Environment& environment) {
  return tool_is_there("gcloud") ? gcloud_vertex_api() : rest_vertex_api(environment);
}

}  // namespace muster::inline v0_1::jobs::internal
