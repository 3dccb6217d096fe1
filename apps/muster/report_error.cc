#include "apps/muster/report_error.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "muster/base/log.h"
#include "muster/base/printable.h"

namespace muster::app {

int report_error(const Error& error) {
  log::status("");  // the same line shows the progress so far
  std::string text = fmt::format("error: {}\n", error.message());
  for (const std::string& cause : error.causes()) text += fmt::format("  caused by: {}\n", cause);
  if (!error.hint().empty()) text += fmt::format("hint: {}\n", error.hint());
  fputs(printable_lines(text).c_str(), stderr);
  return exit_code(error.kind());
}

}  // namespace muster::app
