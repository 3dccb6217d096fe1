// Jobs on Kubernetes, by kubectl: it knows the cluster and the permissions there. Thread safety:
// one thread at a time.
//
// The documents of a job belong to the leading one: Kubernetes deletes them with it. The job's
// token is made when it is submitted, and is only in a Secret of the cluster.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/jobs/kubernetes_manifests.h"
#include "muster/jobs/target.h"

namespace muster::inline v0_1::jobs {

namespace internal {
class Answer;
}

// How the cluster is reached, and which documents it gets.
struct KubernetesTargetOptions {
  KubernetesOptions documents{};
  std::string context{};  // of kubectl's configuration; empty: its current one
  std::string kubectl = "kubectl";
  bool tls = false;           // with certificates made for the job
  bool show_secrets = false;  // describe() shows the Secret too, with a token made for it
};

// Submits jobs to a cluster, and asks for them.
class KubernetesTarget final : public Target {
 public:
  explicit KubernetesTarget(KubernetesTargetOptions options) : options_(std::move(options)) {}

  std::string_view name() const override { return "kubernetes"; }
  // The notes of the manifests. Throws InvalidArgument as kubernetes_manifests() does.
  std::vector<std::string> check(const JobSpec& job) const override;
  // The documents as YAML, for `kubectl create -f -`.
  std::string describe(const JobSpec& job, const JobRecord& record) const override;
  void locate(const JobSpec& job, JobRecord& record) const override;
  // Creates the documents. Throws UnclearSubmission when the cluster did not answer; else
  // InvalidArgument when the cluster refuses them or has a job of that name, Unavailable when it
  // cannot be reached, NotFound without kubectl.
  void submit(const JobSpec& job, JobRecord& record) override;
  // Recognises the job by an annotation of its leading document. If a job exists only in part, and
  // was submitted minutes ago, the parts are deleted: they cannot run.
  bool recognise(JobRecord& record) override;
  JobStatus status(const JobRecord& record) override;
  std::string where(const JobRecord& record) const override;  // the context
  // Lines of several tasks begin with the task's name: "[worker-0] ".
  void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) override;
  // Ended jobs keep their names until they are deleted.
  bool frees_names() const override { return false; }
  // Deletes the documents: tasks get SIGTERM, and a minute to save. Their logs are gone then.
  void cancel(const JobRecord& record) override;

 private:
  std::vector<std::string> kubectl(const JobRecord& record, std::vector<std::string> words) const;
  // The documents and pods of the job, as kubectl lists them.
  nlohmann::json list(const JobRecord& record) const;
  // Creates the documents, and returns kubectl's output about them: "json", "name".
  std::string create(const JobRecord& record, const std::vector<nlohmann::ordered_json>& documents,
                     const std::string& output) const;
  // Creates the leading document, or finds that it exists, from this submission.
  internal::Answer create_leading(const JobRecord& record,
                                  const nlohmann::ordered_json& document) const;
  // Throws InvalidArgument if the cluster has no documents of the job's kind.
  void check_kind(const JobRecord& record) const;
  // The leading document, if it exists; and if it belongs to this submission.
  std::optional<internal::Answer> find_leading(const JobRecord& record) const;
  std::optional<internal::Answer> find_own(const JobRecord& record) const;
  // Whether the document that is created last exists too.
  bool is_whole(const JobRecord& record) const;
  // Takes the documents of the job away.
  void remove(const JobRecord& record) const;

  KubernetesTargetOptions options_;
};

}  // namespace muster::inline v0_1::jobs
