// The host tensors from which a batch was copied to the device: code that only looks at the numbers
// (is each a class number, or a row of the table?) need not wait for the device. Thread safety:
// each thread has its own.
#pragma once

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Forgets earlier notes: another batch begins.
void forget_host_copies();
// Notes that `there`, on a device, is a copy of `here`, on the CPU. Keeps none of the memory of
// `there`.
void note_host_copy(const Tensor& there, const Tensor& here);
// The numbers of `tensor` where they can be read without waiting: the tensor itself if it is on the
// CPU; the noted tensor, unless `tensor` was changed in place; else the tensor on its device. Views
// of all of a noted tensor count as it. Changes of tensors that were made in inference mode are not
// counted, so nothing is known of those.
MUSTER_PART_EXPORT Tensor nearest(const Tensor& tensor);
// The same on the CPU in any case: a copy that waits for the device where nothing was noted.
Tensor on_host(const Tensor& tensor);

}  // namespace muster::inline v0_1
