#include "muster/cluster/protection_check.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/cluster/address.h"
#include "muster/cluster/internal/tls_check.h"

namespace muster::inline v0_1::cluster {

namespace {

// How a launcher passes a variable to all tasks; "" if no advice is needed.
std::string how_to_pass(const std::string& source) {
  if (source == "torchrun")
    return "; torchrun hands its own environment on to the tasks of its node";
  if (source == "MPI")
    return "; mpirun -x MUSTER_JOB_TOKEN (Open MPI) hands it on, mpiexec of MPICH does so unasked";
  if (source == "Slurm")
    return "; srun --export=ALL, which is what it does unasked, hands it on from sbatch and srun";
  if (source == "PET_* (Kubeflow)" || source == "RANK and WORLD_SIZE" ||
      source == "Kubernetes Job" || source == "TPU")
    return "; in Kubernetes it is a Secret, as env or as a file of the pods";
  if (source == "CLUSTER_SPEC") return "; in Vertex AI it is in containerSpec.env of each pool";
  if (source == "SageMaker") return "; in SageMaker it is in the Environment of the training job";
  return "";
}

bool is_protected(const Job& job, const std::string& address) {
  return !job.token.empty() || job.tls || job.insecure || is_loopback(host_of(address));
}

}  // namespace

void check_protected(const ResolvedCluster& cluster) {
  if (is_protected(cluster.job, cluster.coordinator_address)) return;
  if (cluster.rank != 0) {
    throw invalid_argument(
        fmt::format("this task, {}, has no MUSTER_JOB_TOKEN, and the coordinator at {} can be "
                    "reached from other machines: without the token of its job no task joins",
                    cluster.task.name(), cluster.coordinator_address),
        "give it the job's: the same MUSTER_JOB_TOKEN, or file of it in MUSTER_JOB_TOKEN_FILE, as "
        "on all other tasks; export MUSTER_JOB_TOKEN=$(openssl rand -hex 32) makes a new one; "
        "where "
        "the network itself keeps unauthenticated peers out: MUSTER_INSECURE=1" +
            how_to_pass(cluster.source));
  }
  try {
    check_protected(cluster.job, "the coordinator", cluster.coordinator_address);
  } catch (const Error& error) {
    throw invalid_argument(error.message(), error.hint() + how_to_pass(cluster.source));
  }
}

void check_protected(const Job& job, const std::string& who, const std::string& address) {
  if (is_protected(job, address)) return;
  throw invalid_argument(
      fmt::format("other machines can connect to {} at {}, and peers are not authenticated: every "
                  "peer that connects could join, read and end this run",
                  who, address),
      "give every task the same secret: export MUSTER_JOB_TOKEN=$(openssl rand -hex 32), or a file "
      "of it in MUSTER_JOB_TOKEN_FILE; where the network itself keeps unauthenticated peers out: "
      "MUSTER_INSECURE=1");
}

void check_certificate_name(const ResolvedCluster& cluster) {
  if (!cluster.job.tls || cluster.rank != 0) return;
  const TlsIdentity& tls = *cluster.job.tls;
  if (tls.certificate.empty()) return;  // read_job() gives none
  const std::string host = host_of(cluster.coordinator_address);
  const std::string& name = tls.server_name.empty() ? host : tls.server_name;
  if (is_for_host(tls.certificate, name)) return;
  throw invalid_argument(
      fmt::format("the certificate in MUSTER_TLS_CERT is for {}, and not for '{}', {}",
                  join_quoted(hosts_of(tls.certificate)), name,
                  tls.server_name.empty()
                      ? "the host at which TF_CONFIG has the coordinator: no task would accept it"
                      : "the name in MUSTER_TLS_SERVER_NAME: no task would accept it"),
      fmt::format(
          "make certificates for the hosts in TF_CONFIG (muster certificates --out=DIR {}), "
          "or say the certificate's name to every task in MUSTER_TLS_SERVER_NAME",
          host));
}

}  // namespace muster::inline v0_1::cluster
