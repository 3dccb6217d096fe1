// Tells what a process knows of its standard streams and of the terminal behind them. Thread
// safety: call open_standard_streams() at the beginning of main(); the others are safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::inline v0_1 {

// A program may be started with a standard stream closed. The next file it opens would take the
// number of that stream, and texts for users would be written into the file. So this opens
// /dev/null for each standard stream that is closed.
void open_standard_streams();

// The size of a terminal, in characters.
struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
// Returns the size of the terminal, or nothing when `fd` is none.
std::optional<TerminalSize> terminal_size(int fd);

// Whether `fd` is a terminal that takes cursor movements: TERM is not "dumb".
bool takes_escapes(int fd);
// Whether `fd` is such a terminal and colour is wanted: NO_COLOR is unset or empty.
bool takes_color(int fd);

// Returns the first `columns` characters of UTF-8 text. Control characters are left out, because
// they would move the cursor.
std::string cut_to_columns(std::string_view text, int columns);

}  // namespace muster::inline v0_1
