#include "muster/tensor/host_copy.h"

#include <vector>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

struct Noted {
  // As long as a tensor has it, another tensor cannot have the same address.
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  int64_t offset = 0;
  uint32_t version = 0;
  Tensor here;
};

thread_local std::vector<Noted> noted;

// Whether its numbers are in its memory, one after the other, and its changes are counted.
bool is_plain(const Tensor& tensor) {
  return tensor.has_storage() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
         !tensor.is_inference();
}

bool is_of(const Tensor& tensor, const Noted& one) {
  return is_plain(tensor) &&
         one.storage._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
         one.offset == tensor.storage_offset() && one.version == tensor._version() &&
         one.here.numel() == tensor.numel() && one.here.scalar_type() == tensor.scalar_type();
}

}  // namespace

void forget_host_copies() { noted.clear(); }

void note_host_copy(const Tensor& there, const Tensor& here) {
  if (!is_plain(there)) return;
  noted.push_back({there.storage().getWeakStorageImpl(), there.storage_offset(),
                   static_cast<uint32_t>(there._version()), here.contiguous()});
}

Tensor nearest(const Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  for (const Noted& one : noted) {
    if (is_of(tensor, one)) return one.here.view(tensor.sizes());
  }
  return tensor;
}

Tensor on_host(const Tensor& tensor) {
  const Tensor near = nearest(tensor);
  return near.is_cpu() ? near : near.cpu();
}

}  // namespace muster::inline v0_1
