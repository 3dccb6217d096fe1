// What Muster asks of Vertex AI: create, get and cancel a job, read its log. By gcloud where it is,
// which knows who is asking, or by REST with credentials of its own. Thread safety: one thread at a
// time.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/base/environment.h"
#include "muster/jobs/internal/vertex_job.h"

namespace muster::inline v0_1::jobs::internal {

// One service, by one way. What it answers in another form than is expected is Unavailable, with
// what it said.
class VertexApi {
 public:
  virtual ~VertexApi() = default;

  // The project that the environment names, for a job where nothing else does; empty where there is
  // none, or where the service's own tool finds it.
  virtual std::string own_project() const { return ""; }

  // Creates the job and returns its resource name: "projects/1/locations/us-central1/customJobs/2".
  // Secrets in it are shown to nobody; `folder` is one that this account alone can enter.
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

// The commands of gcloud for this job, for people: what create() runs, except for the file, which
// is called "job.json".
std::vector<std::string> gcloud_create_command(const VertexPlace& place, const VertexJob& job);

// `gcloud` is a path, or a name in PATH. Every call throws NotFound when it is not there,
// InvalidArgument with what it said when it refuses, Unavailable when the service cannot be
// reached.
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

// gcloud's where that is installed, else the REST one.
std::unique_ptr<VertexApi> vertex_api(const Environment& environment);

}  // namespace muster::inline v0_1::jobs::internal
