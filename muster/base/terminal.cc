#include "muster/base/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace muster::inline v0_1 {

void open_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // open() returns the lowest free number, which is this one.
    [[maybe_unused]] const int opened = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
  }
}

std::optional<TerminalSize> terminal_size(int fd) {
  winsize size{};
  if (isatty(fd) != 1 || ioctl(fd, TIOCGWINSZ, &size) != 0) return std::nullopt;
  TerminalSize result;
  if (size.ws_col > 0) result.columns = size.ws_col;
  if (size.ws_row > 0) result.rows = size.ws_row;
  return result;
}

bool takes_escapes(int fd) {
  const char* kind = std::getenv("TERM");
  return isatty(fd) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

bool takes_color(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  return takes_escapes(fd) && (no_color == nullptr || *no_color == '\0');
}

std::string cut_to_columns(std::string_view text, int columns) {
  std::string kept;
  int count = 0;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f) continue;
    const bool begins = (byte & 0xc0) != 0x80;
    if (begins && count++ == columns) break;
    kept += letter;
  }
  return kept;
}

}  // namespace muster::inline v0_1
