# Language level, warnings, sanitizers, and the tools that make builds quick when they are there.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# One setting for libraries and executables alike, so that all of them can use the precompiled header.
add_compile_options(-fPIC)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# NDEBUG hides our own checks too; we keep assert() out of hot paths instead.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -fno-omit-frame-pointer")

add_library(muster_flags INTERFACE)
target_compile_options(muster_flags INTERFACE -Wall -Wextra)
target_include_directories(muster_flags INTERFACE ${CMAKE_SOURCE_DIR})
# What leaves a library is marked in the headers: muster/base/export.h.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE STREQUAL Release)
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
endif()
if(MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
  # A third of the time such a compilation takes goes into these checks. What they find, the address sanitizer or the
  # processor mostly finds as well; where sources are compiled one by one they are all there.
  if(MUSTER_UNITY AND MUSTER_SANITIZE STREQUAL "address,undefined")
    add_compile_options(-fno-sanitize=null,object-size,vptr,pointer-overflow)
    # To optimise takes another quarter of the time; the tests of the laws are short.
    string(REPLACE "-O1" "-O0" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
  endif()
endif()

# GCC marks and sweeps all of its memory, precompiled header included, each time it has grown; left alone up to a
# gigabyte it needs a tenth more memory for a unit of LibTorch sources and up to a sixth less time.
if(MUSTER_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  add_compile_options(--param=ggc-min-heapsize=1048576)
endif()

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header is only cacheable when its time stamp is allowed to differ.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      # Two clones share what they compile; paths in debug information begin at the clone.
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${MUSTER_CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
find_program(MUSTER_MOLD mold)
if(MUSTER_MOLD)
  # mold 1.10 lets the segment that is read-only after relocation begin with thread-local variables,
  # which may lie on the page before, where nothing is mapped: a program with one thread-local byte
  # did not start ("cannot apply additional memory protection"). Segments on pages of their own do.
  add_link_options(-fuse-ld=mold -Wl,-z,separate-loadable-segments)
endif()
