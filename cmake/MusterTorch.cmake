# LibTorch: Debian's, or another one by CMAKE_PREFIX_PATH (an unpacked archive, or the folder of a Python package;
# CPU or CUDA).
#   muster_torch  what the tensor storey links
#   muster_fast_blas  which BLAS LibTorch loads, for programs
#   muster_nccl   for the one that talks to NCCL; only there where LibTorch has CUDA and NCCL is installed
include(MusterTorchChecks)

file(TO_CMAKE_PATH "$ENV{CMAKE_PREFIX_PATH}" muster_prefixes)
muster_check_torch_cuda(${Torch_ROOT} ${CMAKE_PREFIX_PATH} ${muster_prefixes})
# There is no CUDA code to compile here: LibTorch need not find out, by running some, which GPUs there are.
if(NOT TORCH_CUDA_ARCH_LIST AND NOT DEFINED ENV{TORCH_CUDA_ARCH_LIST})
  set(TORCH_CUDA_ARCH_LIST 9.0)
endif()
find_package(Torch QUIET)
if(NOT Torch_FOUND)
  message(FATAL_ERROR "there is no LibTorch here.\n"
    "hint: Debian: apt-get install libtorch-dev; elsewhere: unpack LibTorch and configure with "
    "-DCMAKE_PREFIX_PATH=FOLDER_OF_LIBTORCH")
endif()
muster_check_torch_abi("${TORCH_CXX_FLAGS}" ${TORCH_INSTALL_PREFIX})
get_target_property(muster_torch_cpu torch_cpu LOCATION)
message(STATUS "LibTorch ${Torch_VERSION} in ${TORCH_INSTALL_PREFIX}")

# Its targets, not TORCH_LIBRARIES: those name files, and may be another LibTorch's that is installed too.
add_library(muster_torch INTERFACE)
target_link_libraries(muster_torch INTERFACE fmt::fmt nlohmann_json::nlohmann_json torch torch_library)
# Archives of PyTorch bring headers of an fmt along, of another version than the one that is linked here: the folder of
# the right ones is looked through first.
get_target_property(muster_fmt_dir fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
  if(EXISTS ${folder}/fmt AND EXISTS ${muster_fmt_dir}/fmt AND NOT "${folder}" STREQUAL muster_fmt_dir)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include_first)
    file(CREATE_LINK ${muster_fmt_dir}/fmt ${CMAKE_BINARY_DIR}/include_first/fmt SYMBOLIC)
    target_include_directories(muster_torch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/include_first)
  endif()
endforeach()
target_include_directories(muster_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})

# LibTorch's own NCCL is often hidden inside of it; ours must be the system's, with its headers.
if(TARGET torch_cuda)
  find_path(MUSTER_NCCL_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDA_INCLUDE_DIRS})
  find_library(MUSTER_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(MUSTER_NCCL_DIR AND MUSTER_NCCL_LIBRARY)
    add_library(muster_nccl INTERFACE)
    target_include_directories(muster_nccl SYSTEM INTERFACE ${MUSTER_NCCL_DIR})
    target_link_libraries(muster_nccl INTERFACE ${MUSTER_NCCL_LIBRARY})
    message(STATUS "NCCL in ${MUSTER_NCCL_LIBRARY}: GPUs reduce gradients among themselves")
  else()
    message(WARNING "LibTorch has CUDA, but NCCL is not here: gradients of several GPUs will travel through the CPU.\n"
      "hint: install it (Debian: libnccl-dev), or name where it is: -DMUSTER_NCCL_DIR=FOLDER_OF_NCCL_H "
      "-DMUSTER_NCCL_LIBRARY=FILE")
  endif()
endif()

# Where LibTorch has parts of a C++ library, too, this machine's is looked through first.
muster_torch_has_filesystem(${muster_torch_cpu} MUSTER_STDCXX_FIRST)
if(MUSTER_STDCXX_FIRST)
  target_link_options(muster_torch INTERFACE "SHELL:-Wl,--push-state,--no-as-needed -lstdc++ -Wl,--pop-state")
endif()

# Installed programs find a LibTorch that is not the system's.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Programs look for the OpenMP build of OpenBLAS first, which is five times faster than the reference BLAS. RPATH, not
# RUNPATH: the BLAS is loaded by LibTorch, and only RPATH reaches a library's own dependencies.
add_library(muster_fast_blas INTERFACE)
find_path(MUSTER_OPENBLAS_DIR libblas.so.3
          PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
if(MUSTER_OPENBLAS_DIR)
  target_link_options(muster_fast_blas INTERFACE -Wl,--disable-new-dtags,-rpath,${MUSTER_OPENBLAS_DIR})
endif()
