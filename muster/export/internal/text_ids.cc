#include "muster/export/internal/text_ids.h"

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

TextIds::TextIds(const TextInput& input) : unknown_(input.unknown) {
  for (size_t i = 0; i < input.words.size(); ++i)
    ids_.emplace(input.words[i], static_cast<int64_t>(i));
}

Tensor TextIds::operator()(const Strings& texts) const {
  Tensor ids = torch::empty(texts.shape(), at::TensorOptions(kInt64));
  int64_t* id = ids.data_ptr<int64_t>();
  for (int64_t i = 0; i < texts.size(); ++i) {
    const auto found = ids_.find(texts[i]);
    id[i] = found == ids_.end() ? unknown_ : found->second;
  }
  return ids;
}

}  // namespace muster::inline v0_1::internal
