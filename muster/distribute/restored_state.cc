#include "muster/distribute/restored_state.h"


#include <map>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

void restore_state(Session& session, Checkpoint& checkpoint, const std::string& prefix) {
  session.take_replica_values(checkpoint.tensors);
  const std::map<std::string, Tensor> state = session.state();
  std::map<std::string, TensorSpec> needed;
  for (const auto& [name, tensor] : state)
    needed[name] = {tensor.sizes().vec(), tensor.scalar_type()};
  compare(needed, checkpoint, prefix).throw_if_incompatible();
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : state) Tensor(tensor).copy_(checkpoint.tensors.at(name));
}

}  // namespace muster::inline v0_1::distribute
