// What a process knows of its standard streams and of the terminal behind them.
// Thread safety: open_standard_streams() belongs at the begin of main(); the others are safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::inline v0_1 {

// A program may be started with a standard stream closed. The next file it opens would take its
// number, and what is meant for people would be written into that file: those that are closed lead
// nowhere from now on.
void open_standard_streams();

// In characters.
struct TerminalSize {
  int columns = 80;
  int rows = 24;
};
// Nothing when `fd` is no terminal.
std::optional<TerminalSize> terminal_size(int fd);

// Whether `fd` is a terminal that takes cursor movements: TERM is not "dumb".
bool takes_escapes(int fd);
// Whether it also wants colour: NO_COLOR is unset or empty.
bool takes_color(int fd);

// The first `columns` characters of UTF-8 text, without control characters, which would move the
// cursor.
std::string cut_to_columns(std::string_view text, int columns);

}  // namespace muster::inline v0_1
