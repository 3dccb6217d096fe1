# Muster's examples, with an installed Muster. Copy this folder, or build it where it lies:
#   cmake -S . -B FOLDER -DMUSTER_EXAMPLES="iris;tour"    (without the words: all of them)
#   cmake --build FOLDER
cmake_minimum_required(VERSION 3.18)
project(muster_examples LANGUAGES CXX)
set(MUSTER_EXAMPLES "" CACHE STRING "The folders to build; empty: all")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
find_package(muster REQUIRED)
find_package(fmt REQUIRED)  # without its library: headers of LibTorch may be those of another fmt

# As the examples' own CMakeLists.txt call it. The folders that some name in DEPS are parts of muster::muster here.
function(muster_executable)
  cmake_parse_arguments(arg "TORCH" "NAME" "SOURCES;DEPS;OPTIONAL_DEPS" ${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_include_directories(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/..)
  target_link_libraries(${arg_NAME} PRIVATE muster::muster muster::fast_allocator fmt::fmt-header-only)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endfunction()

set(folders ${MUSTER_EXAMPLES})
if(NOT folders)
  file(GLOB folders RELATIVE ${PROJECT_SOURCE_DIR} */CMakeLists.txt)
  list(TRANSFORM folders REPLACE "/CMakeLists.txt$" "")
endif()
foreach(folder IN LISTS folders)
  add_subdirectory(${folder})
endforeach()
