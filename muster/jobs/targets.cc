#include "muster/jobs/targets.h"

#include "muster/base/unknown_name.h"
#include "muster/jobs/local_target.h"
#include "muster/jobs/slurm_target.h"

namespace muster::inline v0_1::jobs {

std::vector<std::string> target_names() { return {"local", "slurm", "kubernetes", "vertex"}; }

std::unique_ptr<Target> make_target(const std::string& name, const TargetOptions& options) {
  if (name == "local") return std::make_unique<LocalTarget>(options.muster);
  if (name == "slurm") return std::make_unique<SlurmTarget>(options.muster, options.slurm_flags);
  if (name == "kubernetes") return std::make_unique<KubernetesTarget>(options.kubernetes);
  if (name == "vertex")
    return std::make_unique<VertexTarget>(options.vertex, vertex_api(Environment::process()));
  throw unknown_name("muster", "target", name, target_names());
}

}  // namespace muster::inline v0_1::jobs
