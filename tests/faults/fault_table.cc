// Strikes every task of a run, and its launcher, in every phase, and writes the tables of
// docs/faults.md: "tasks" (two workers in step, over shared memory and over TCP), "servers" (a run
// on parameter servers with an evaluator), "machines" (two launchers of `muster run --nodes`) and
// "elastic" (the same as an elastic run).
// Exit code: 1 if a cell breaks a promise. Standard error reports each cell.
//   fault_table [--table=NAME]... [--out=FILE] [--doc=FILE] [--only=WORD]... [--minutes=N]
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>

#include "muster/base/error.h"
#include "muster/launch/exit_status.h"
#include "tests/end_to_end/program.h"
#include "tests/faults/blow.h"
#include "tests/faults/cell.h"
#include "tests/faults/node_cell.h"
#include "tests/faults/served_cell.h"

namespace muster::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBlows[] = {SIGKILL, SIGSTOP, SIGTERM, kCutConnections, kDiskFull, kTenTimesSlower};

struct Options {
  std::string out, doc;
  std::vector<std::string> tables;
  std::vector<std::string> only;  // words that a row's name must all contain
  double minutes = 80;
  int at_once = 1;
};

// A row of a table that is not measured yet.
struct Row {
  std::string name;
  // Measures and returns the row. Adds what is broken.
  std::function<std::string(std::string& broken)> measure;
};

struct Table {
  std::string name;
  std::string head;
  std::vector<Row> rows;
};

// "a" if both are the same, else "a / b".
std::string both(const std::string& first, const std::string& second) {
  return first == second ? first : first + " / " + second;
}

std::string code_text(int code) {
  return code < 0 ? "killed by " + launch::signal_name(-code) : std::to_string(code);
}

std::string bits_text(bool same) { return same ? "same" : "**other**"; }

Measured measured_cell(const Cell& cell, std::string& broken) {
  Measured measured;
  try {
    measured = strike(cell);
  } catch (const Error& error) {
    measured.broken = {error.what()};
  }
  for (const std::string& line : measured.broken) broken += cell.text() + ": " + line + "\n";
  if (!measured.broken.empty()) broken += measured.output;
  return measured;
}

std::string task_row(Cell cell, std::string& broken) {
  cell.transport = "shared_memory";
  const Measured memory = measured_cell(cell, broken);
  cell.transport = "tcp";
  const Measured tcp = measured_cell(cell, broken);
  return fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {} | {} | {} |\n", blow_name(cell.signal),
                     cell.victim, cell.phase, memory.seconds, tcp.seconds,
                     both(memory.named.text(), tcp.named.text()),
                     both(code_text(memory.code), code_text(tcp.code)),
                     both(bits_text(memory.same_bits), bits_text(tcp.same_bits)));
}

Table tasks_table() {
  Table table{.name = "tasks",
              .head =
                  "| signal | to | phase | seconds, shared memory | seconds, TCP | named | exit "
                  "code | bits after resuming |\n|---|---|---|---|---|---|---|---|\n"};
  for (const int blow : kBlows) {
    for (const char* victim : {"worker", "chief", "launcher"}) {
      for (const std::string& phase : phases()) {
        const Cell cell{blow, victim, phase, ""};
        if (!cell.possible()) continue;
        table.rows.push_back(
            {cell.text(), [cell](std::string& broken) { return task_row(cell, broken); }});
      }
    }
  }
  return table;
}

Table servers_table() {
  Table table{.name = "servers",
              .head =
                  "| signal | to | phase | seconds | exit code | last checkpoint |\n"
                  "|---|---|---|---|---|---|\n"};
  for (const int blow : kBlows) {
    for (const std::string& task : served_tasks()) {
      for (const std::string& phase : served_phases()) {
        const ServedCell cell{blow, task, phase};
        if (!cell.possible()) continue;
        table.rows.push_back(
            {cell.text(), [cell](std::string& broken) {
               const ServedMeasured measured = strike(cell);
               broken += measured.broken;
               return fmt::format("| {} | {} | {} | {:.1f} | {} | {} |\n", blow_name(cell.signal),
                                  cell.task, cell.phase, measured.seconds, code_text(measured.code),
                                  measured.saved < 0 ? "-" : std::to_string(measured.saved));
             }});
      }
    }
  }
  return table;
}

Table machines_table(bool elastic) {
  Table table{.name = elastic ? "elastic" : "machines",
              .head = fmt::format(
                  "| signal | to | phase | seconds | exit code, machine 0 | exit code, machine 1 "
                  "| {} |\n|---|---|---|---|---|---|---|\n",
                  elastic ? "examples" : "bits at the end")};
  for (const int blow : kBlows) {
    for (const char* victim : {"rendezvous", "launcher", "worker"}) {
      for (const std::string& phase : node_phases()) {
        const NodeCell cell{blow, victim, phase, elastic};
        if (!cell.possible()) continue;
        table.rows.push_back(
            {cell.text(), [cell](std::string& broken) {
               const NodeMeasured measured = strike(cell);
               broken += measured.broken;
               const std::string used = measured.same_bits ? "once" : "**not once**";
               return fmt::format("| {} | {} | {} | {:.1f} | {} | {} | {} |\n",
                                  blow_name(cell.signal), cell.victim, cell.phase, measured.seconds,
                                  code_text(measured.rendezvous_code),
                                  code_text(measured.launcher_code),
                                  cell.elastic ? used : bits_text(measured.same_bits));
             }});
      }
    }
  }
  return table;
}

bool wanted(const Row& row, const std::vector<std::string>& only) {
  for (const std::string& word : only) {
    if (row.name.find(word) == std::string::npos) return false;
  }
  return true;
}

// Puts the table between its marks in a document.
void write_into(const std::string& path, const std::string& name, const std::string& table) {
  const std::string begin_mark = "<!-- fault table: " + name + " -->\n",
                    end_mark = "<!-- end of fault table: " + name + " -->\n";
  const std::string text = read_file(path);
  const size_t begin = text.find(begin_mark), end = text.find(end_mark);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    throw not_found(path + " has no place for the table " + name,
                    "put " + begin_mark + "and " + end_mark + "there");
  }
  write_file(path, text.substr(0, begin + begin_mark.size()) + table + text.substr(end));
}

// Measures the rows and reports each. Returns whether all are as promised.
class Measurement {
 public:
  Measurement(Table table, const Options& options)
      : table_(std::move(table)),
        options_(options),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(options.minutes * 60))) {
    std::erase_if(table_.rows, [&](const Row& row) { return !wanted(row, options.only); });
    made_.resize(table_.rows.size());
  }

  bool run() {
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < options_.at_once; ++i) threads.emplace_back([this] { measure_rows(); });
    }
    if (!options_.doc.empty()) write_into(options_.doc, table_.name, text());
    return good_;
  }
  std::string text() const {
    std::string all = table_.head;
    for (const std::string& row : made_) all += row;
    return all;
  }

 private:
  void measure_rows() {
    for (size_t own = next_++; own < table_.rows.size(); own = next_++) {
      const Row& row = table_.rows[own];
      if (Clock::now() >= end_) {
        report(own, "", row.name + ": not measured, because the time is over\n");
        continue;
      }
      std::string broken;
      std::string made = row.measure(broken);
      report(own, std::move(made), broken);
    }
  }
  void report(size_t row, std::string made, const std::string& broken) {
    const std::lock_guard lock(mutex_);
    std::fprintf(stderr, "%s", made.c_str());
    if (!broken.empty()) std::fprintf(stderr, "BROKEN: %s---\n", broken.c_str());
    good_ = good_ && broken.empty();
    made_[row] = std::move(made);
    if (!options_.out.empty()) write_file(options_.out, text());
  }

  Table table_;
  const Options& options_;
  const Clock::time_point end_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::vector<std::string> made_;  // by row
  bool good_ = true;
};

int make_tables(const Options& options) {
  bool good = true;
  for (Table& table : std::vector{tasks_table(), servers_table(), machines_table(/*elastic=*/false),
                                  machines_table(/*elastic=*/true)}) {
    const auto& names = options.tables;
    if (!names.empty() && std::find(names.begin(), names.end(), table.name) == names.end())
      continue;
    good = Measurement(table, options).run() && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace muster::testing

int main(int argc, char** argv) {
  muster::testing::Options options;
  CLI::App app("Strikes a run in every phase and writes the tables of docs/faults.md.");
  app.add_option("--table", options.tables, "Only this table: tasks, servers, machines or elastic")
      ->check(CLI::IsMember({"tasks", "servers", "machines", "elastic"}));
  app.add_option("--out", options.out, "Where the last table is written, row by row");
  app.add_option("--doc", options.doc, "A document whose tables are replaced at the end");
  app.add_option("--only", options.only, "Rows with this word alone: SIGSTOP, chief, save");
  app.add_option("--minutes", options.minutes, "No row of a table is begun after so long");
  app.add_option("--at-once", options.at_once, "How many rows are measured at a time")
      ->check(CLI::Range(1, 16));
  CLI11_PARSE(app, argc, argv);
  try {
    return muster::testing::make_tables(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
