# cmake -DFOLDER=build/board-page -DOUT=FILE -P MusterEmbedPage.cmake
# Writes the C++ source of page_files(): the page of the board, as text; no files where the folder has none.
set(entries "")
foreach(file index.html board.js board.css)
  if(NOT EXISTS ${FOLDER}/${file})
    continue()
  endif()
  file(READ ${FOLDER}/${file} text)
  set(type "text/html; charset=utf-8")
  if(file MATCHES "\\.js$")
    set(type "text/javascript; charset=utf-8")
  elseif(file MATCHES "\\.css$")
    set(type "text/css; charset=utf-8")
  endif()
  string(APPEND entries "      {\"${file}\", \"${type}\", R\"muster_page(${text})muster_page\"},\n")
endforeach()
file(WRITE ${OUT} "// Made by MusterEmbedPage.cmake.
#include \"muster/board/board_page.h\"

namespace muster::inline v0_1::board {

const std::vector<PageFile>& page_files() {
  static const auto* const files = new std::vector<PageFile>{
${entries}  };
  return *files;
}

}  // namespace muster::inline v0_1::board
")
