# Everything Muster stands on, found once. All of it comes from Debian's packages; LibTorch may come
# from elsewhere through CMAKE_PREFIX_PATH. Where some targets alone are built (MUSTER_ONLY), what is not here may be
# what they do not need; CMake names it when they do.
set(muster_required REQUIRED)
if(MUSTER_ONLY)
  set(muster_required QUIET)
endif()
find_package(Threads REQUIRED)
find_package(ZLIB ${muster_required})
find_package(JPEG ${muster_required})
find_package(PNG ${muster_required})
find_package(OpenSSL ${muster_required})
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 ${muster_required})
find_package(yaml-cpp ${muster_required})
find_package(CURL ${muster_required})
find_package(pugixml ${muster_required})
find_package(simdjson ${muster_required})
# Headers alone.
find_path(MUSTER_BOOST_DIR boost/beast/http/basic_parser.hpp)
if(NOT MUSTER_BOOST_DIR AND NOT MUSTER_ONLY)
  message(FATAL_ERROR "Boost.Beast's headers are not here.\n"
    "hint: Debian: apt-get install libboost-dev; elsewhere: -DMUSTER_BOOST_DIR=FOLDER_WITH_boost")
endif()
add_library(muster_beast INTERFACE)
target_include_directories(muster_beast SYSTEM INTERFACE ${MUSTER_BOOST_DIR})
# One of its assertions does not hold for a last chunk that comes byte by byte, which its code reads as it should.
target_compile_definitions(muster_beast INTERFACE BOOST_DISABLE_ASSERTS)
# These say neither to CMake nor, on each Debian, to pkg-config where they are.
function(muster_find_library name header)
  string(TOUPPER MUSTER_${name} variable)
  find_path(${variable}_DIR ${header})
  find_library(${variable}_LIBRARY ${name})
  add_library(muster_${name} INTERFACE)
  if(${variable}_DIR AND ${variable}_LIBRARY)
    target_include_directories(muster_${name} SYSTEM INTERFACE ${${variable}_DIR})
    # Where sources are compiled one by one, only what uses it loads it.
    target_link_libraries(muster_${name} INTERFACE -Wl,--push-state,--as-needed ${${variable}_LIBRARY} -Wl,--pop-state)
  elseif(NOT MUSTER_ONLY)
    message(FATAL_ERROR "${header} or its library is not here.\n"
      "hint: Debian: apt-get install lib${name}-dev; elsewhere: -D${variable}_DIR=FOLDER_WITH_${header} "
      "-D${variable}_LIBRARY=FILE")
  endif()
endfunction()
# Names of functions in stacks, from the symbols and the debug information of programs. It comes with GCC; without it,
# stacks name only functions that something exports.
include(CheckCXXSourceCompiles)
add_library(muster_backtrace INTERFACE)
set(CMAKE_REQUIRED_LIBRARIES backtrace)
check_cxx_source_compiles("#include <backtrace.h>
int main() { return backtrace_create_state(nullptr, 1, nullptr, nullptr) == nullptr; }" MUSTER_HAS_LIBBACKTRACE)
unset(CMAKE_REQUIRED_LIBRARIES)
if(MUSTER_HAS_LIBBACKTRACE)
  target_compile_definitions(muster_backtrace INTERFACE MUSTER_HAS_LIBBACKTRACE)
  target_link_libraries(muster_backtrace INTERFACE backtrace)
endif()
muster_find_library(farmhash farmhash.h)
muster_find_library(re2 re2/re2.h)
# The build without MPI: Debian has several.
find_path(MUSTER_HDF5_DIR hdf5.h PATH_SUFFIXES hdf5/serial)
find_library(MUSTER_HDF5_LIBRARY hdf5 PATH_SUFFIXES hdf5/serial)
muster_find_library(hdf5 hdf5.h)
# ONNX's messages, checker and shape inference, for the part onnx alone; its own files for CMake ask for Protobuf's.
find_path(MUSTER_ONNX_DIR onnx/checker.h)
foreach(name IN ITEMS onnx onnx_proto protobuf)
  string(TOUPPER MUSTER_${name}_LIBRARY variable)
  find_library(${variable} ${name})
endforeach()
add_library(muster_onnx_format INTERFACE)
if(MUSTER_ONNX_DIR AND MUSTER_ONNX_LIBRARY AND MUSTER_ONNX_PROTO_LIBRARY AND MUSTER_PROTOBUF_LIBRARY)
  target_include_directories(muster_onnx_format SYSTEM INTERFACE ${MUSTER_ONNX_DIR})
  target_compile_definitions(muster_onnx_format INTERFACE ONNX_NAMESPACE=onnx ONNX_ML=1)
  target_link_libraries(muster_onnx_format INTERFACE
    -Wl,--push-state,--as-needed ${MUSTER_ONNX_LIBRARY} ${MUSTER_ONNX_PROTO_LIBRARY} ${MUSTER_PROTOBUF_LIBRARY} -Wl,--pop-state)
elseif(NOT MUSTER_ONLY)
  message(FATAL_ERROR "onnx/checker.h or a library of ONNX or Protobuf is not here.\n"
    "hint: Debian: apt-get install libonnx-dev libprotobuf-dev; elsewhere: -DMUSTER_ONNX_DIR=FOLDER_WITH_onnx/checker.h "
    "-DMUSTER_ONNX_LIBRARY=FILE -DMUSTER_ONNX_PROTO_LIBRARY=FILE -DMUSTER_PROTOBUF_LIBRARY=FILE")
endif()

if(MUSTER_SANITIZE STREQUAL "thread" OR MUSTER_FUZZ OR (MUSTER_ONLY AND NOT "TORCH" IN_LIST MUSTER_ONLY))
  # LibTorch under libgomp floods the thread sanitizer, and parsers of bytes do without it: these presets build the
  # ground storey alone. MUSTER_ONLY has the word TORCH where a target needs it.
  set(MUSTER_GROUND_ONLY ON)
endif()
if(NOT MUSTER_GROUND_ONLY)
  include(MusterTorch)
endif()

# What a program may link to be fast here, and no library decides for it; ours do. The sanitizers bring their own
# allocator.
add_library(muster_fast_allocator INTERFACE)
add_library(muster::fast_allocator ALIAS muster_fast_allocator)
if(TARGET muster_fast_blas)
  target_link_libraries(muster_fast_allocator INTERFACE muster_fast_blas)
endif()
if(NOT MUSTER_SANITIZE)
  find_package(mimalloc QUIET)
  # 3.0 was a trial release: on Debian 13 it breaks the heap of programs that trace a model to export it.
  if(mimalloc_FOUND AND mimalloc_VERSION MATCHES "^3\\.0")
    message(STATUS "mimalloc ${mimalloc_VERSION} is not used: it is a trial release that breaks the heap")
  elseif(mimalloc_FOUND)
    target_link_libraries(muster_fast_allocator INTERFACE -Wl,--no-as-needed mimalloc -Wl,--as-needed)
    # How it calls the time after which freed memory goes back to the system.
    set(MUSTER_MIMALLOC_DELAY mi_option_purge_delay)
    if(mimalloc_VERSION VERSION_LESS 2.1)
      set(MUSTER_MIMALLOC_DELAY mi_option_decommit_delay)
    endif()
  endif()
endif()

if(MUSTER_BUILD_TESTS)
  find_package(GTest REQUIRED)
  # Its header depends on macros that its compiled half was built with; Debian's says them to pkg-config.
  find_package(PkgConfig ${muster_required})
  if(PkgConfig_FOUND)
    pkg_check_modules(MUSTER_HTTPLIB QUIET IMPORTED_TARGET cpp-httplib)
  endif()
  add_library(muster_httplib INTERFACE)
  if(MUSTER_HTTPLIB_FOUND)
    target_link_libraries(muster_httplib INTERFACE PkgConfig::MUSTER_HTTPLIB)
  else()
    find_package(httplib CONFIG QUIET)
    if(NOT httplib_FOUND AND NOT MUSTER_ONLY)
      message(FATAL_ERROR "cpp-httplib is not here.\n"
        "hint: Debian: apt-get install libcpp-httplib-dev; elsewhere: CMAKE_PREFIX_PATH of one that CMake finds")
    endif()
    target_link_libraries(muster_httplib INTERFACE httplib::httplib)
  endif()
endif()
