// Jobs on Vertex AI. Thread safety: one thread at a time.
//
// Nothing is sent without credentials: gcloud's, where it is there.
#pragma once

#include <memory>
#include <string>

#include "muster/jobs/target.h"
#include "muster/jobs/vertex_api.h"

namespace muster::inline v0_1::jobs {

// Whose jobs they are, and what is said of them.
struct VertexTargetOptions {
  VertexOptions job;
  VertexPlace place;          // over the job's own region and project
  bool show_secrets = false;  // describe() shows a token too, made for it
};

// The target `--to=vertex`.
class VertexTarget final : public Target {
 public:
  VertexTarget(VertexTargetOptions options, std::unique_ptr<VertexApi> api)
      : options_(std::move(options)), api_(std::move(api)) {}

  std::string_view name() const override { return "vertex"; }
  // The notes of vertex_job(). Throws as that does, and for a job without a region.
  std::vector<std::string> check(const JobSpec& job) const override;
  // The resource as JSON, behind the command that creates it as a comment.
  std::string describe(const JobSpec& job, const JobRecord& record) const override;
  void submit(const JobSpec& job, JobRecord& record) override;
  // Of its tasks Vertex AI tells nothing.
  JobStatus status(const JobRecord& record) override;
  // Lines of several tasks begin with the task's name: "[worker-0] ". They come from Cloud Logging,
  // some seconds late.
  void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) override;
  void cancel(const JobRecord& record) override;

 private:
  VertexPlace place_of(const JobSpec& job) const;

  VertexTargetOptions options_;
  std::unique_ptr<VertexApi> api_;
};

}  // namespace muster::inline v0_1::jobs
