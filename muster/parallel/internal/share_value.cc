#include "muster/parallel/internal/share_value.h"

#include "muster/collectives/communicator.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

void share_value(distribute::Replica& replica, const Tensor& value, int root) {
  torch::NoGradGuard no_grad;
  const Tensor flat = value.detach().contiguous().view({-1});
  replica.group().explained([&] { replica.communicator()->broadcast(flat, root).wait(); });
  if (replica.replica_id() != root) Tensor(value).copy_(flat.view(value.sizes()));
}

}  // namespace muster::inline v0_1::internal
