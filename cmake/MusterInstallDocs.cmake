# Run at installation, with SOURCE, DOCDIR and INCLUDEDIR (both below the prefix): the documents, with links that lead
# somewhere there too. One to a header leads to the installed header; of one to what is not installed (tests, sources,
# the house's own documents) the words stay.
cmake_policy(VERSION 3.25)
set(root $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX})
file(GLOB guides RELATIVE ${SOURCE} ${SOURCE}/docs/*.md)
set(documents README.md CHANGELOG.md ${guides})
foreach(document IN LISTS documents)
  get_filename_component(folder ${document} DIRECTORY)
  file(READ ${SOURCE}/${document} text)
  # What may be a target: a list of CMake's takes no brackets and semicolons.
  string(REGEX MATCHALL "\\([-A-Za-z0-9_./#]+\\)" targets "${text}")
  list(REMOVE_DUPLICATES targets)
  foreach(target IN LISTS targets)
    string(REGEX REPLACE "^\\(([^#]*)(#?[^)]*)\\)$" "\\1" path "${target}")
    get_filename_component(path "${SOURCE}/${folder}/${path}" ABSOLUTE)
    file(RELATIVE_PATH path ${SOURCE} ${path})
    # A part of the same document, a document, an example; or brackets that are no link.
    if(target MATCHES "^\\(#" OR path IN_LIST documents OR path MATCHES "^(LICENSE$|examples($|/))"
       OR NOT EXISTS ${SOURCE}/${path})
      continue()
    endif()
    if(EXISTS ${root}/${INCLUDEDIR}/${path} AND NOT IS_DIRECTORY ${root}/${INCLUDEDIR}/${path})
      file(RELATIVE_PATH there /${DOCDIR}/${folder} /${INCLUDEDIR}/${path})
      string(REPLACE "]${target}" "](${there})" text "${text}")
    else()
      string(REGEX REPLACE "([].+*?()|^$\\])" "\\\\\\1" pattern "${target}")
      string(REGEX REPLACE "\\[([^]\n]+)\\]${pattern}" "\\1" text "${text}")
    endif()
  endforeach()
  file(WRITE ${SCRATCH}/${document} "${text}")
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/${DOCDIR}/${folder} TYPE FILE FILES ${SCRATCH}/${document})
endforeach()
