# cmake --install: a shared library and a pkg-config file for each part of FLOORS that users link, the public headers,
# the programs, and what find_package(muster) needs. What they are made of stays inside of the libraries' exports.
# Components, which are Debian packages too: each part, dev, command, board, jobs, serve, train, model.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(NOT MUSTER_GROUND_ONLY AND NOT MUSTER_SANITIZE)
  file(WRITE ${CMAKE_BINARY_DIR}/muster_shared.cc.in "// The library is made of the folders' archives.\n")
  configure_file(${CMAKE_BINARY_DIR}/muster_shared.cc.in ${CMAKE_BINARY_DIR}/muster_shared.cc COPYONLY)
  # From LIBDIR/pkgconfig to the prefix, which may be moved.
  file(RELATIVE_PATH muster_up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  set(muster_torch_includes ${TORCH_INCLUDE_DIRS})
  list(REMOVE_ITEM muster_torch_includes ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
  list(TRANSFORM muster_torch_includes PREPEND "-isystem ")
  list(JOIN muster_torch_includes " " muster_torch_includes)
  get_filename_component(muster_torch_dir ${muster_torch_cpu} DIRECTORY)
  set(muster_installed_parts)

  foreach(part IN LISTS MUSTER_PARTS)
    get_property(archives GLOBAL PROPERTY MUSTER_ARCHIVES_${part})
    get_property(externals GLOBAL PROPERTY MUSTER_EXTERNALS_${part})
    if(NOT archives)
      continue()  # in programs alone
    endif()
    list(APPEND muster_installed_parts ${part})
    set(known ${MUSTER_KNOWS_${part}})
    list(REMOVE_ITEM known ${part})
    # What the headers of the others call; it is linked where it is needed.
    foreach(other IN LISTS known)
      get_property(theirs GLOBAL PROPERTY MUSTER_EXTERNALS_${other})
      list(APPEND externals ${theirs})
    endforeach()
    list(REMOVE_DUPLICATES externals)
    set(files ${archives})
    list(TRANSFORM files REPLACE "(.+)" "$<TARGET_FILE:\\1>")
    set(libraries ${known})
    list(TRANSFORM libraries PREPEND muster_part_)
    set(target muster_part_${part})
    add_library(${target} SHARED ${CMAKE_BINARY_DIR}/muster_shared.cc)
    set_target_properties(${target} PROPERTIES
      OUTPUT_NAME muster-${part} VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
      LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/muster.map
      INSTALL_RPATH "$ORIGIN")
    # The files, not the targets, which would bring the archives of other parts along: what those have comes out of
    # their shared libraries, and nothing is in two.
    add_dependencies(${target} ${archives})
    target_link_libraries(${target} PRIVATE -Wl,--whole-archive ${files} -Wl,--no-whole-archive ${libraries} ${externals})
    target_link_options(${target} PRIVATE
      -Wl,--as-needed -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/muster.map -Wl,--no-undefined)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${part} NAMELINK_COMPONENT dev)

    set(muster_requires ${known})
    list(TRANSFORM muster_requires PREPEND "muster-")
    set(muster_cflags "-I\${includedir}")
    set(muster_libs "-L\${libdir} -Wl,--push-state,--no-as-needed,-lmuster-${part},--pop-state")
    if(part STREQUAL core)
      set(muster_requires nlohmann_json)
      set(muster_cflags "${muster_cflags} ${muster_torch_includes}")
      set(muster_libs "-L\${libdir} -lmuster-core -L${muster_torch_dir} -ltorch -ltorch_cpu -lc10")
      # Where the loader does not look by itself, it may find another LibTorch first.
      if(NOT muster_torch_dir IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
        string(APPEND muster_libs " -Wl,-rpath,${muster_torch_dir}")
      endif()
    endif()
    list(JOIN muster_requires ", " muster_requires)
    set(muster_part ${part})
    configure_file(${CMAKE_SOURCE_DIR}/cmake/muster-part.pc.in ${CMAKE_BINARY_DIR}/muster-${part}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/muster-${part}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
  endforeach()

  # Core looks for it in its own folder.
  if(TARGET muster_xla)
    install(TARGETS muster_xla LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT tpu)
  endif()

  # All that is installed, without the examples and the tests.
  set(libraries ${muster_installed_parts})
  list(TRANSFORM libraries PREPEND muster_part_)
  add_custom_target(library DEPENDS ${libraries} muster muster-board muster-jobs muster-probe muster-serve muster-train muster-model)
  if(TARGET muster_xla)
    add_dependencies(library muster_xla)
  endif()

  install(TARGETS muster RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(FILES ${CMAKE_BINARY_DIR}/muster.bash RENAME muster
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT command)
  # No commands of their own: `muster` becomes them, and `muster doctor` starts the probe.
  install(TARGETS muster-probe RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT command)
  install(TARGETS muster-board RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT board)
  install(TARGETS muster-jobs RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT jobs)
  install(TARGETS muster-serve RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT serve)
  install(TARGETS muster-train RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT train)
  install(TARGETS muster-model RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/muster COMPONENT model)
  # What a user may include, and no more.
  file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/face/headers.txt headers)
  foreach(header IN LISTS headers)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT dev)
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/face/headers.txt)
  set(muster_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
  # The parts, each with those it knows: "core:;stores:core".
  set(muster_part_rows)
  foreach(part IN LISTS muster_installed_parts)
    set(known ${MUSTER_KNOWS_${part}})
    list(REMOVE_ITEM known ${part})
    list(JOIN known "," known)
    list(APPEND muster_part_rows "${part}:${known}")
  endforeach()
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/musterConfig.cmake.in
    ${CMAKE_BINARY_DIR}/musterConfig.cmake INSTALL_DESTINATION ${muster_cmake_dir}
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/musterConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/musterConfig.cmake ${CMAKE_BINARY_DIR}/musterConfigVersion.cmake
          DESTINATION ${muster_cmake_dir} COMPONENT dev)
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
  # The examples, which the documents name, with what builds them outside of the source.
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT dev
          REGEX "/examples/CMakeLists\\.txt$" EXCLUDE)
  install(FILES cmake/installed_examples.cmake RENAME CMakeLists.txt
          DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT dev)
  # After the headers, to which documents lead.
  install(CODE "
    set(SOURCE \"${CMAKE_SOURCE_DIR}\")
    set(DOCDIR \"${CMAKE_INSTALL_DOCDIR}\")
    set(INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(SCRATCH \"${CMAKE_BINARY_DIR}/installed_docs\")" COMPONENT dev)
  install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/MusterInstallDocs.cmake COMPONENT dev)
endif()
