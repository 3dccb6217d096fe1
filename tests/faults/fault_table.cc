// Strikes every task of a run, and `muster run` itself, in every phase, over shared memory and over
// TCP, and writes the table of docs/reliability.md. Exit code: 1 if a cell breaks a promise.
// Standard error reports each cell.
//   fault_table --out=FILE [--doc=FILE] [--only=WORD]... [--minutes=N]
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "muster/base/error.h"
#include "muster/launch/exit_status.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"
#include "tests/faults/cell.h"

namespace muster::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHead =
    "| signal | to | phase | seconds, shared memory | seconds, TCP | named | exit code | bits "
    "after "
    "resuming |\n|---|---|---|---|---|---|---|---|\n";
constexpr std::string_view kBegin = "<!-- fault table -->\n",
                           kEnd = "<!-- end of fault table -->\n";

// "a" if both are the same, else "a / b".
std::string both(const std::string& first, const std::string& second) {
  return first == second ? first : first + " / " + second;
}

std::string code_text(int code) {
  return code < 0 ? "killed by " + launch::signal_name(-code) : std::to_string(code);
}

std::string row(const Cell& cell, const Measured& memory, const Measured& tcp) {
  const auto bits = [](const Measured& measured) {
    return std::string(measured.same_bits ? "same" : "**other**");
  };
  return fmt::format(
      "| {} | {} | {} | {:.1f} | {:.1f} | {} | {} | {} |\n", blow_name(cell.signal), cell.victim,
      cell.phase, memory.seconds, tcp.seconds, both(memory.named.text(), tcp.named.text()),
      both(code_text(memory.code), code_text(tcp.code)), both(bits(memory), bits(tcp)));
}

struct Options {
  std::string out, doc;
  std::vector<std::string> only;  // words that a row's name must all contain
  double minutes = 80;
};

bool wanted(const Cell& cell, const std::vector<std::string>& only) {
  const std::string text = cell.text();
  for (const std::string& word : only) {
    if (text.find(word) == std::string::npos) return false;
  }
  return true;
}

std::vector<Cell> rows(const Options& options) {
  std::vector<Cell> all;
  for (const int signal :
       {SIGKILL, SIGSTOP, SIGTERM, kCutConnections, kDiskFull, kTenTimesSlower}) {
    for (const char* victim : {"worker", "chief", "launcher"}) {
      for (const std::string& phase : phases()) {
        const Cell cell{signal, victim, phase, ""};
        if (cell.possible() && wanted(cell, options.only)) all.push_back(cell);
      }
    }
  }
  return all;
}

// Puts the table between its marks in a document.
void write_into(const std::string& path, const std::string& table) {
  const std::string text = read_file(path);
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    throw not_found(path + " has no place for the table", "put its two marks there");
  write_file(path, text.substr(0, begin + kBegin.size()) + table + text.substr(end));
}

// Measures a cell and reports it. Returns whether it is as promised.
bool measure(const Cell& cell, Measured* measured) {
  try {
    *measured = strike(cell);
  } catch (const Error& error) {
    measured->broken = {error.what()};
  }
  std::fprintf(stderr, "%s: %.1f s, named %s, %s, bits %s\n", cell.text().c_str(),
               measured->seconds, measured->named.text().c_str(), code_text(measured->code).c_str(),
               measured->same_bits ? "same" : "other");
  for (const std::string& line : measured->broken)
    std::fprintf(stderr, "BROKEN: %s: %s\n", cell.text().c_str(), line.c_str());
  std::fprintf(stderr, "%s---\n", measured->output.c_str());
  return measured->broken.empty();
}

int make_table(const Options& options) {
  const auto end = Clock::now() + std::chrono::duration<double>(options.minutes * 60);
  std::string table = kHead;
  bool good = true;
  for (Cell cell : rows(options)) {
    if (Clock::now() >= end) {
      std::fprintf(stderr, "the time is over; not measured from here on: %s\n",
                   cell.text().c_str());
      good = false;
      break;
    }
    Measured memory, tcp;
    cell.transport = "shared_memory";
    good = measure(cell, &memory) && good;
    cell.transport = "tcp";
    good = measure(cell, &tcp) && good;
    table += row(cell, memory, tcp);
    if (!options.out.empty()) write_file(options.out, table);
  }
  if (!options.doc.empty()) write_into(options.doc, table);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) {
  muster::testing::Options options;
  CLI::App app("Strikes a run in every phase and writes the table of docs/reliability.md.");
  app.add_option("--out", options.out, "Where the table is written, row by row");
  app.add_option("--doc", options.doc, "A document whose table is replaced at the end");
  app.add_option("--only", options.only, "Rows with this word alone: SIGSTOP, chief, save");
  app.add_option("--minutes", options.minutes, "No row is begun after so long");
  CLI11_PARSE(app, argc, argv);
  try {
    return muster::testing::make_table(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
