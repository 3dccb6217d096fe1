// Jobs on Kubernetes, by kubectl: it knows the cluster, and who may do what there. Thread safety:
// one thread at a time.
//
// What a job consists of belongs to the document that leads: Kubernetes deletes it with that. Its
// token is made when it is submitted, and stands in a Secret of the cluster and nowhere else.
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

// How the cluster is reached, and what documents it gets.
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
  // By an annotation of the document that leads. Of a job that is there in part, and was
  // submitted minutes ago, the rest is taken away: nothing of it could run.
  bool recognise(JobRecord& record) override;
  JobStatus status(const JobRecord& record) override;
  std::string where(const JobRecord& record) const override;  // the context
  // Lines of several tasks begin with the task's name: "[worker-0] ".
  void logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) override;
  // Jobs that have ended keep theirs until they are deleted.
  bool frees_names() const override { return false; }
  // Deletes the documents: tasks get SIGTERM, and a minute to save. Their logs are gone then.
  void cancel(const JobRecord& record) override;

 private:
  std::vector<std::string> kubectl(const JobRecord& record, std::vector<std::string> words) const;
  // The documents and pods of the job, as kubectl lists them.
  nlohmann::json list(const JobRecord& record) const;
  // Creates the documents, and returns what kubectl printed of them: "json", "name".
  std::string create(const JobRecord& record, const std::vector<nlohmann::ordered_json>& documents,
                     const std::string& output) const;
  // Creates the document that leads, or finds that it is there, of this submission.
  internal::Answer create_leading(const JobRecord& record,
                                  const nlohmann::ordered_json& document) const;
  // Throws InvalidArgument where the cluster has no documents of the job's kind.
  void check_kind(const JobRecord& record) const;
  // The document that leads, where it is there; and where it is of this submission.
  std::optional<internal::Answer> find_leading(const JobRecord& record) const;
  std::optional<internal::Answer> find_own(const JobRecord& record) const;
  // Whether what is created last is there too.
  bool is_whole(const JobRecord& record) const;
  // Takes the documents of the job away.
  void remove(const JobRecord& record) const;

  KubernetesTargetOptions options_;
};

}  // namespace muster::inline v0_1::jobs
