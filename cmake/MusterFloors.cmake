# FLOORS as variables, of which the folders' CMakeLists.txt and the installation know:
#   MUSTER_FOLDERS        the folders of muster/, lowest floor first
#   MUSTER_FLOOR_<folder> MUSTER_PART_<folder>
#   MUSTER_PARTS          the parts; MUSTER_KNOWS_<part>: those it may use, itself the first
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/FLOORS)
file(STRINGS ${CMAKE_SOURCE_DIR}/FLOORS rows REGEX "^[0-9]")
foreach(row IN LISTS rows)
  if(NOT row MATCHES "^([0-9]+) +([a-z]+) +[a-z]+ +([a-z]+)$")
    message(FATAL_ERROR "FLOORS: cannot read '${row}'\nhint: floor, folder, storey, part")
  endif()
  list(APPEND MUSTER_FOLDERS ${CMAKE_MATCH_2})
  set(MUSTER_FLOOR_${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
  set(MUSTER_PART_${CMAKE_MATCH_2} ${CMAKE_MATCH_3})
endforeach()
file(STRINGS ${CMAKE_SOURCE_DIR}/FLOORS rows REGEX "^part ")
foreach(row IN LISTS rows)
  string(REGEX REPLACE " +" ";" words "${row}")
  list(POP_FRONT words)
  list(GET words 0 part)
  list(APPEND MUSTER_PARTS ${part})
  set(MUSTER_KNOWS_${part} ${words})
endforeach()
