# What is wrong with a LibTorch that programs would only notice later, said when it is configured.
# tests/torch_checks asks the checks one by one.

# muster_check_torch_abi(FLAGS WHERE): the C++ ABI of the standard library, by the flags LibTorch asks for.
function(muster_check_torch_abi flags where)
  if(flags MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    message(FATAL_ERROR "not supported: the LibTorch in ${where} was built with the old C++ ABI "
      "(_GLIBCXX_USE_CXX11_ABI=0). The other libraries of this machine were not, and nothing would link.\n"
      "hint: take the archive with cxx11-abi in its name, or a version whose builds all have the new ABI")
  endif()
endfunction()

# muster_torch_symbols(LIBRARY OUT): what the library exports, as nm prints it.
function(muster_torch_symbols library out)
  execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${library}
    OUTPUT_VARIABLE symbols ERROR_VARIABLE problem RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "cannot read the symbols of ${library}: ${problem}"
      "hint: install binutils, or name the program that reads them: -DCMAKE_NM=PROGRAM")
  endif()
  set(${out} "${symbols}" PARENT_SCOPE)
endfunction()

# muster_torch_has_filesystem(LIBRARY OUT): archives of PyTorch export parts of the C++ library that they were linked
# with, std::filesystem among these; a program that took them would crash.
# https://github.com/pytorch/pytorch/issues/133437
function(muster_torch_has_filesystem library out)
  muster_torch_symbols(${library} symbols)
  if(symbols MATCHES "T _ZNK?St10filesystem")
    set(${out} ON PARENT_SCOPE)
  else()
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()

# muster_check_torch_cuda(PREFIX...): LibTorch's own message, when its CUDA toolkit is not there, says little.
function(muster_check_torch_cuda)
  foreach(prefix IN LISTS ARGN)
    # A Python package names the folder of its CMake files as its prefix.
    foreach(folder IN ITEMS ${prefix} ${prefix}/../..)
      if(EXISTS ${folder}/lib/libtorch_cuda.so)
        if(NOT DEFINED CUDAToolkit_FOUND)
          find_package(CUDAToolkit QUIET)
        endif()
        if(NOT CUDAToolkit_FOUND)
          message(FATAL_ERROR "the LibTorch in ${prefix} is a CUDA build, and there is no CUDA toolkit (nvcc) here.\n"
            "hint: install the toolkit of its version, or name its folder (-DCUDAToolkit_ROOT=FOLDER), or take a CPU "
            "build of LibTorch")
        endif()
        return()
      endif()
    endforeach()
  endforeach()
endfunction()
