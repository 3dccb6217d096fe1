// How the allocator of a program treats freed memory.
// Thread safety: any thread.
#pragma once

namespace muster::inline v0_1 {

// Where the program is linked with mimalloc, lets it keep freed memory, from the first call on: it
// allocates out of half of the machine's memory, of which the system sees what was used, and gives
// none of that back before it ends; what lies outside stays for ten seconds. Otherwise a step of
// training gets every page of its large tensors again from the system, which may take longer than
// to compute them. What the environment says, as MIMALLOC_RESERVE_OS_MEMORY and
// MIMALLOC_DECOMMIT_DELAY, counts more. Where the addresses of a process are limited (ulimit -v),
// or the system promises no more memory than it has, nothing is reserved; without mimalloc it does
// nothing.
void keep_freed_memory();

}  // namespace muster::inline v0_1
