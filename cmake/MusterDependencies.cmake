# Everything Muster stands on, found once. All of it comes from Debian's packages; LibTorch may come
# from elsewhere through CMAKE_PREFIX_PATH.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)

add_library(muster_torch INTERFACE)
target_link_libraries(muster_torch INTERFACE fmt::fmt nlohmann_json::nlohmann_json)
if(MUSTER_SANITIZE STREQUAL "thread")
  # LibTorch under libgomp floods the thread sanitizer: that preset builds the ground storey alone.
  set(MUSTER_GROUND_ONLY ON)
else()
  set(MUSTER_GROUND_ONLY OFF)
  find_package(Torch QUIET REQUIRED)
  target_link_libraries(muster_torch INTERFACE ${TORCH_LIBRARIES})
  target_include_directories(muster_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_compile_definitions(muster_torch INTERFACE USE_C10D_GLOO)
endif()

# RPATH, not RUNPATH: the BLAS is loaded by LibTorch, and only RPATH reaches a library's own
# dependencies. The OpenMP build is five times faster than the reference BLAS.
find_path(MUSTER_OPENBLAS_DIR libblas.so.3
          PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp NO_DEFAULT_PATH)
if(MUSTER_OPENBLAS_DIR)
  target_link_options(muster_torch INTERFACE -Wl,--disable-new-dtags,-rpath,${MUSTER_OPENBLAS_DIR})
endif()

# Linked into executables only; the sanitizers bring their own allocator.
add_library(muster_allocator INTERFACE)
if(NOT MUSTER_SANITIZE)
  find_package(mimalloc QUIET)
  if(mimalloc_FOUND)
    target_link_libraries(muster_allocator INTERFACE -Wl,--no-as-needed mimalloc -Wl,--as-needed)
  endif()
endif()

if(MUSTER_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
