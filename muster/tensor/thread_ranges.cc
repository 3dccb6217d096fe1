#include "muster/tensor/thread_ranges.h"

#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/LegacyTypeDispatch.h>

namespace muster::inline v0_1 {

void over_ranges(int64_t count, int64_t grain,
                 const std::function<void(int64_t begin, int64_t end)>& work) {
  if (count <= 0) return;
  if (count <= grain || at::get_num_threads() == 1 || at::in_parallel_region())
    return work(0, count);
  // LibTorch is compiled with OpenMP: its iterator over the elements of a tensor divides them over
  // its threads. The addresses of the elements tell which range is whose; nobody reads the bytes.
  const at::AutoDispatchBelowADInplaceOrView plain;
  const at::Tensor numbers = at::empty({count}, at::kByte);
  const char* const first = static_cast<const char*>(numbers.data_ptr());
  at::TensorIterator iterator = at::TensorIteratorConfig().add_borrowed_input(numbers).build();
  iterator.for_each(
      [&](char** data, const int64_t*, int64_t size) {
        const int64_t begin = data[0] - first;
        work(begin, begin + size);
      },
      grain);
}

}  // namespace muster::inline v0_1
