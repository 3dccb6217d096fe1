# muster_library(NAME base SOURCES a.cc b.cc [DEPS muster::x ...] [PRIVATE_DEPS y ...] [TORCH] [NOT_INSTALLED])
#   One static library per folder of the house: target muster_<name>, alias muster::<name>.
#   NOT_INSTALLED: no part of the library users get.
#   TORCH: the folder belongs to the tensor storey (links LibTorch, shares the precompiled header).
# muster_test(NAME base_test SOURCES a_test.cc [DEPS ...] [TORCH] [LAW] [LABELS fast|slow] [TIMEOUT seconds]
#             [SHARDS 1])
#   One GoogleTest binary, one CTest entry. Default label fast; a test that has not ended after 180 s
#   hangs, however busy the machine is.
#   SHARDS: so many CTest entries, which run beside each other; each has its share of the binary's tests.
#   LAW: sanitizers look at it in every run of .ci/run (target and label "laws" and "law"), as at all tests of the
#   ground storey; the others are looked at by ./dev check.
# muster_executable(NAME mnist SOURCES ... [DEPS ...] [TORCH])

# Several sources as one, where a folder is built as a whole: headers are read and templates instantiated once for all.
function(muster_join_sources target)
  if(MUSTER_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    # A .cc file that is included is taken for a header, in which types of anonymous namespaces would be a mistake.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

function(muster_library)
  cmake_parse_arguments(arg "TORCH;NOT_INSTALLED" "NAME" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target muster_${arg_NAME})
  if(arg_TORCH AND MUSTER_GROUND_ONLY)
    return()
  endif()
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(muster::${arg_NAME} ALIAS ${target})
  if(NOT arg_NOT_INSTALLED)
    set_property(GLOBAL APPEND PROPERTY MUSTER_FOLDER_LIBRARIES ${target})
  endif()
  muster_join_sources(${target})
  target_link_libraries(${target} PUBLIC muster_flags ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC muster_torch)
    target_precompile_headers(${target} REUSE_FROM muster_torch_pch)
  endif()
endfunction()

function(muster_executable)
  cmake_parse_arguments(arg "TORCH" "NAME" "SOURCES;DEPS" ${ARGN})
  if(arg_TORCH AND MUSTER_GROUND_ONLY)
    return()
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  muster_join_sources(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE muster_flags muster_allocator ${arg_DEPS})
  if(arg_TORCH)
    target_link_libraries(${arg_NAME} PRIVATE muster_torch)
    target_precompile_headers(${arg_NAME} REUSE_FROM muster_torch_pch)
  endif()
endfunction()

# Sets the variable to the limit of a test that may take so many seconds.
function(muster_time_limit variable seconds)
  # Sanitizers make programs several times slower.
  if(MUSTER_SANITIZE)
    math(EXPR seconds "${seconds} * 4")
  endif()
  set(${variable} ${seconds} PARENT_SCOPE)
endfunction()

function(muster_test)
  cmake_parse_arguments(arg "TORCH;LAW" "NAME;TIMEOUT;LABELS;SHARDS" "SOURCES;DEPS" ${ARGN})
  if(NOT MUSTER_BUILD_TESTS OR (arg_TORCH AND MUSTER_GROUND_ONLY))
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 180)
  endif()
  muster_time_limit(arg_TIMEOUT ${arg_TIMEOUT})
  if(NOT arg_LABELS)
    set(arg_LABELS fast)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  muster_join_sources(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE muster_flags muster_test_flags ${arg_DEPS} GTest::gmock GTest::gtest_main)
  if(arg_TORCH)
    target_link_libraries(${arg_NAME} PRIVATE muster_torch)
    target_precompile_headers(${arg_NAME} REUSE_FROM muster_torch_test_pch)
  else()
    # The precompiled header serves those alone that define the same macros.
    target_link_libraries(${arg_NAME} PRIVATE fmt::fmt)
    target_compile_options(${arg_NAME} PRIVATE -pthread)
    target_precompile_headers(${arg_NAME} REUSE_FROM muster_test_pch)
  endif()
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  if(arg_LAW OR (NOT arg_TORCH AND folder MATCHES "^(muster|tests/fuzz)(/|$)"))
    list(APPEND arg_LABELS law)
    add_dependencies(laws ${arg_NAME})
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  muster_test_entries(entries ${arg_NAME} ${arg_SHARDS})
  set(index 0)
  foreach(name IN LISTS entries)
    set(environment OMP_NUM_THREADS=1 MUSTER_BIN_DIR=${CMAKE_BINARY_DIR}/bin MUSTER_SOURCE_DIR=${CMAKE_SOURCE_DIR})
    if(arg_SHARDS GREATER 1)
      list(APPEND environment GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${name} COMMAND ${arg_NAME})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "${environment}")
    math(EXPR index "${index} + 1")
  endforeach()
endfunction()

# Sets the variable to the names of a test's CTest entries: its own name, or one for each shard.
function(muster_test_entries variable name shards)
  set(names ${name})
  if(shards GREATER 1)
    list(TRANSFORM names APPEND "_1")
    foreach(shard RANGE 2 ${shards})
      list(APPEND names ${name}_${shard})
    endforeach()
  endif()
  set(${variable} ${names} PARENT_SCOPE)
endfunction()

add_custom_target(laws)

# Tests are run a few times and compiled as often: what they call is optimised fully, they are not. Nor are they looked
# through for undefined behaviour of their own, which takes four times as long to compile; for bad memory they are.
add_library(muster_test_flags INTERFACE)
target_compile_options(muster_test_flags INTERFACE $<$<CONFIG:Release>:-O0>)
if(MUSTER_SANITIZE STREQUAL "address,undefined")
  target_compile_options(muster_test_flags INTERFACE -O0 -fno-sanitize=undefined)
endif()

# One precompiled header serves every LibTorch source, one every test of them, which have GoogleTest too, and one the
# other tests. muster/tensor/libtorch.h says what of LibTorch is in it, and why not more.
function(muster_precompile name)
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cc.in "// Only here to carry the precompiled header.\n")
  configure_file(${CMAKE_BINARY_DIR}/${name}.cc.in ${CMAKE_BINARY_DIR}/${name}.cc COPYONLY)
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PUBLIC muster_flags fmt::fmt nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} PRIVATE
    ${ARGN} <nlohmann/json.hpp> <fmt/format.h> <algorithm> <cstdint> <functional> <map>
    <memory> <optional> <string> <string_view> <variant> <vector>)
endfunction()

if(NOT MUSTER_GROUND_ONLY)
  muster_precompile(muster_torch_pch ${CMAKE_SOURCE_DIR}/muster/tensor/libtorch.h)
  target_link_libraries(muster_torch_pch PUBLIC muster_torch)
endif()
if(MUSTER_BUILD_TESTS)
  muster_precompile(muster_test_pch <gmock/gmock.h> <gtest/gtest.h>)
  target_link_libraries(muster_test_pch PRIVATE muster_test_flags GTest::gmock)
  target_compile_options(muster_test_pch PRIVATE -pthread)
  if(NOT MUSTER_GROUND_ONLY)
    muster_precompile(muster_torch_test_pch ${CMAKE_SOURCE_DIR}/muster/tensor/libtorch.h <gmock/gmock.h> <gtest/gtest.h>)
    target_link_libraries(muster_torch_test_pch PUBLIC muster_torch PRIVATE muster_test_flags GTest::gmock)
  endif()
endif()
