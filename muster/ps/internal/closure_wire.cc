#include "muster/ps/internal/closure_wire.h"

#include "muster/ps/internal/wire.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

using nlohmann::json;

json forms_of(const std::vector<Tensor>& tensors) {
  json forms = json::array();
  for (const Tensor& tensor : tensors)
    forms.push_back(
        {{"shape", tensor.sizes().vec()}, {"dtype", static_cast<int>(tensor.scalar_type())}});
  return forms;
}

std::vector<Tensor> receive_all(net::MessageSocket& socket, const json& forms) {
  std::vector<Tensor> tensors;
  for (const json& form : forms) {
    tensors.push_back(torch::empty(form.at("shape").get<Shape>(),
                                   at::dtype(static_cast<DType>(form.at("dtype").get<int>()))));
    receive_tensor(socket, tensors.back());
  }
  return tensors;
}

}  // namespace muster::inline v0_1::ps
