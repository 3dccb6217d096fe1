// Jobs on Vertex AI. Thread safety: one thread at a time.
//
// Nothing is sent without credentials: gcloud's, if it is installed.
#pragma once

#include <memory>
#include <string>

#include "muster/jobs/target.h"
#include "muster/jobs/vertex_options.h"

namespace muster::inline v0_1::jobs {

namespace internal {
class VertexApi;
}

// Which jobs it makes, and where.
struct VertexTargetOptions {
  VertexOptions job{};
  VertexPlace place{};          // over the job's own region and project
  bool show_secrets = false;    // describe() shows a token too, made for it
  bool only_described = false;  // nothing is submitted: a job may lack its region
};

// Submits jobs to Vertex AI, and asks for them.
class VertexTarget final : public Target {
 public:
  // Sends requests by gcloud if that is installed, else by REST.
  explicit VertexTarget(VertexTargetOptions options);
  // Asks by `api`.
  VertexTarget(VertexTargetOptions options, std::unique_ptr<internal::VertexApi> api);
  ~VertexTarget() override;

  std::string_view name() const override { return "vertex"; }
  // Throws InvalidArgument for a job without a region or an image (with `only_described` a note
  // says that the region is missing), with machines or accelerators that Vertex AI does not have,
  // and for values that it does not take.
  std::vector<std::string> check(const JobSpec& job) const override;
  // The resource as JSON, after the command that creates it as a comment.
  std::string describe(const JobSpec& job, const JobRecord& record) const override;
  void locate(const JobSpec& job, JobRecord& record) const override;
  // Throws InvalidArgument when Vertex AI refuses it, or there are no credentials;
  // UnclearSubmission when it did not answer, and does not show the job.
  void submit(const JobSpec& job, JobRecord& record) override;
  // By a label of the job.
  bool recognise(JobRecord& record) override;
  // Vertex AI reports nothing about its tasks.
  JobStatus status(const JobRecord& record) override;
  std::string where(const JobRecord& record) const override;  // the region
  // Lines of several tasks begin with the task's name: "[worker-0] ". They come from Cloud Logging,
  // some seconds late.
  void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) override;
  void cancel(const JobRecord& record) override;

 private:
  VertexPlace place_of(const JobSpec& job) const;

  VertexTargetOptions options_;
  std::unique_ptr<internal::VertexApi> api_;
};

}  // namespace muster::inline v0_1::jobs
