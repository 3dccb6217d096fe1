// How the allocator of a program treats freed memory.
// Thread safety: any thread.
#pragma once

namespace muster::inline v0_1 {

// Where the program is linked with mimalloc, lets it keep freed memory for ten seconds instead of a
// tenth of one: a step of training that takes longer would get every page of its tensors anew from
// the system. What the environment says, as MIMALLOC_DECOMMIT_DELAY, counts more. Elsewhere it does
// nothing.
void keep_freed_memory();

}  // namespace muster::inline v0_1
