// Requests to Vertex AI: create, get and cancel a job, read its log. They go through gcloud if it
// exists, which knows the account, or through REST with credentials of its own. Thread safety: one
// thread at a time.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/jobs/internal/vertex_job.h"

namespace muster::inline v0_1::jobs::internal {

// One service, by one way. An answer of unexpected form is Unavailable, with its text.
class VertexApi {
 public:
  virtual ~VertexApi() = default;

  // The project that the environment names, for a job without another one; empty if there is none,
  // or if the service's own tool finds it.
  virtual std::string own_project() const { return ""; }

  // Creates the job and returns its resource name: "projects/1/locations/us-central1/customJobs/2".
  // Secrets in it are never shown; only this account can enter `folder`.
  virtual std::string create(const VertexPlace& place, const VertexJob& job,
                             const std::string& folder) = 0;
  // Returns the resource names of the jobs, or of the tuning jobs, with that label.
  virtual std::vector<std::string> find(const VertexPlace& place, bool tuning,
                                        const std::string& label, const std::string& value) = 0;
  // Returns the resource, an object. Throws NotFound when there is none.
  virtual nlohmann::json get(const VertexPlace& place, const std::string& name) = 0;
  virtual void cancel(const VertexPlace& place, const std::string& name) = 0;
  // Returns entries of Cloud Logging that `filter` selects, the oldest first, at most `most`.
  virtual std::vector<nlohmann::json> log_entries(const VertexPlace& place,
                                                  const std::string& filter, int most) = 0;
};

// The commands of gcloud for this job, for people: the same as in create(), except for the file,
// which is called "job.json".
std::vector<std::string> gcloud_create_command(const VertexPlace& place, const VertexJob& job);

// `gcloud` is a path, or a name in PATH. Every call throws NotFound if it does not exist,
// InvalidArgument with its message if it refuses, Unavailable if the service cannot be reached.
std::unique_ptr<VertexApi> gcloud_vertex_api(const std::string& gcloud = "gcloud");

// Where Google's services are; empty: where they always are.
struct RestEndpoints {
  std::string vertex{};   // "https://us-central1-aiplatform.googleapis.com"
  std::string logging{};  // "https://logging.googleapis.com"
};
// Calls throw InvalidArgument, and send nothing, without a project or credentials (see
// stores::GoogleApi).
std::unique_ptr<VertexApi> rest_vertex_api(const Environment& environment,
                                           const RestEndpoints& endpoints = {});

// gcloud's if that is installed, else the REST one.
std::unique_ptr<VertexApi> vertex_api(const Environment& environment);

}  // namespace muster::inline v0_1::jobs::internal
