// How the allocator of a program treats freed memory.
// Thread safety: any thread.
#pragma once

namespace muster::inline v0_1 {

// If the program is linked with mimalloc, lets it keep freed memory, from the first call on: it
// allocates out of half of the machine's memory, of which the used part counts as used, and returns
// none of that before it ends; memory outside of it is kept for ten seconds. Otherwise a step of
// training gets every page of its large tensors anew from the system, which may take longer than to
// compute them. The environment variables MIMALLOC_RESERVE_OS_MEMORY and MIMALLOC_DECOMMIT_DELAY
// have priority. If the addresses of a process are limited (ulimit -v), or the system promises no
// more memory than it has, nothing is reserved; without mimalloc it does nothing.
void keep_freed_memory();

}  // namespace muster::inline v0_1
