// The page of the board, as files inside of the program. cmake/MusterEmbedPage.cmake writes them
// from build/board-page, where `./dev board-page` has made them. Thread safety: a pure function.
#pragma once

#include <string_view>
#include <vector>

namespace muster::inline v0_1::board {

struct PageFile {
  std::string_view name;  // "index.html"
  std::string_view type;  // "text/html; charset=utf-8"
  std::string_view content;
};

// The files; none in a program that was built without the page.
const std::vector<PageFile>& page_files();

}  // namespace muster::inline v0_1::board
