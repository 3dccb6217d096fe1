// Functions of a loaded library that the dynamic linker bound to another library's functions.
// Thread safety: call it while no other thread runs code of the library.
#pragma once

#include <string_view>

namespace muster::inline v0_1::xla {

// Binds the functions that the library `file` defines, and whose symbols contain `word`, to its own
// code, as if the library was loaded with RTLD_DEEPBIND. `file` is a part of the library's file
// name. Returns how many references of the library it changed. Throws std::runtime_error if no such
// library is loaded.
//
// RTLD_DEEPBIND itself would also bind malloc() and free(): in a program that links another
// allocator, the library would then free memory that it did not allocate.
int bind_own_functions(std::string_view file, std::string_view word);

}  // namespace muster::inline v0_1::xla
