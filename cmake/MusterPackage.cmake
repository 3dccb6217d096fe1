# cpack -G DEB (./dev package): what the component "library" installs, as one Debian package that brings
# what programs need to build against it. What the binaries link is found by dpkg-shlibdeps.
if(NOT TARGET muster_shared)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME muster)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Muster developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed training with Estimators, in C++")
set(CPACK_PACKAGE_DESCRIPTION "Muster trains, evaluates, saves and resumes models that are written once, as a model
function and an input function, on one process or on several that keep in step. This
package holds the library, its headers and the muster command.")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_CMAKE_PROJECTS "${CMAKE_BINARY_DIR};muster;library;/")
set(CPACK_DEB_COMPONENT_INSTALL OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libtorch-dev, libfmt-dev, nlohmann-json3-dev, libopenblas0-openmp")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libmimalloc-dev, cmake, ninja-build")
# Only what is installed has to be built.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
include(CPack)
