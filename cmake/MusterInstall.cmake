# cmake --install: one shared library of the whole house, its public headers, the muster command, and what
# find_package(muster) needs. gRPC, protobuf and the rest stay behind the library's exports.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(NOT MUSTER_GROUND_ONLY AND NOT MUSTER_SANITIZE)
  get_property(muster_folder_libraries GLOBAL PROPERTY MUSTER_FOLDER_LIBRARIES)
  file(WRITE ${CMAKE_BINARY_DIR}/muster_shared.cc.in "// The library is made of the folders' archives.\n")
  configure_file(${CMAKE_BINARY_DIR}/muster_shared.cc.in ${CMAKE_BINARY_DIR}/muster_shared.cc COPYONLY)
  add_library(muster_shared SHARED ${CMAKE_BINARY_DIR}/muster_shared.cc)
  set_target_properties(muster_shared PROPERTIES
    OUTPUT_NAME muster VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
    LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/muster.map)
  # Also when one archive of the house links another.
  list(JOIN muster_folder_libraries "," muster_whole)
  set_target_properties(muster_shared PROPERTIES LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${muster_whole}")
  target_link_libraries(muster_shared PRIVATE ${muster_folder_libraries})
  target_link_options(muster_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/muster.map -Wl,--no-undefined)

  # All that is installed, without the examples and the tests.
  add_custom_target(library DEPENDS muster_shared muster muster-probe muster-serve muster-train)

  install(TARGETS muster_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
  install(TARGETS muster RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library)
  install(FILES ${CMAKE_BINARY_DIR}/muster.bash RENAME muster
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT library)
  # No commands of their own: `muster doctor`, `muster serve` and `muster train` start them.
  install(TARGETS muster-probe muster-serve muster-train RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT library)
  foreach(folder IN LISTS MUSTER_FOLDERS)
    # Parts of the commands alone, which are in no library that is installed.
    if(folder MATCHES "^(serve|jobs)$")
      continue()
    endif()
    # What a folder keeps to itself, and what is for tests, stays here.
    file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/muster/${folder}/*.h)
    list(FILTER headers EXCLUDE REGEX "/(await|compute_anyway|error_of|fault_file_system|temp_directory|communicator_suite|libtorch|test_loops)\\.h$")
    if(NOT MUSTER_CONTROL_PLANE)
      list(FILTER headers EXCLUDE REGEX "/coordinator_store\\.h$")
    endif()
    install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/muster/${folder} COMPONENT library)
  endforeach()
  install(FILES ${CMAKE_SOURCE_DIR}/muster/muster.h ${CMAKE_SOURCE_DIR}/muster/torch.h
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/muster
          COMPONENT library)
  set(muster_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/musterConfig.cmake.in
    ${CMAKE_BINARY_DIR}/musterConfig.cmake INSTALL_DESTINATION ${muster_cmake_dir}
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/musterConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/musterConfig.cmake ${CMAKE_BINARY_DIR}/musterConfigVersion.cmake
          DESTINATION ${muster_cmake_dir} COMPONENT library)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
  # The examples, which the documents name, with what builds them outside of the source.
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT library
          REGEX "/examples/CMakeLists\\.txt$" EXCLUDE)
  install(FILES cmake/installed_examples.cmake RENAME CMakeLists.txt
          DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT library)
  # Behind the headers, to which documents lead.
  install(CODE "
    set(SOURCE \"${CMAKE_SOURCE_DIR}\")
    set(DOCDIR \"${CMAKE_INSTALL_DOCDIR}\")
    set(INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(SCRATCH \"${CMAKE_BINARY_DIR}/installed_docs\")" COMPONENT library)
  install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/MusterInstallDocs.cmake COMPONENT library)
endif()
