// A document's view of a terminal: ```sh blocks of commands and ```text blocks of what they print.
// Compares a block with what a run really printed, and writes the latter into the document. Pure
// functions.
//
// In a block, "…" alone on a line means any lines, within a line for any text. A line in front of a
// block says how it is run, if that is not simply "run it, it ends with 0":
//   <!-- not run: why -->              commands for another place or time
//   <!-- exit code 2 -->               how the commands end
//   <!-- Ctrl-C after: step 1000 -->   interrupted once that was printed; ends with 130
//   <!-- stays after: step 1000 -->    left running once that was printed, while the next commands
//   run
//   <!-- run again -->                 a ```text block: the commands before, once more
//   <!-- of the first terminal -->     a ```text block: of what was left running, when it has ended
//   <!-- no output -->                 a ```text block nobody printed
// Several follow each other with "; ".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::docs {

struct Block {
  bool commands = false;    // ```sh, else ```text
  std::string directive{};  // "exit code 2"; empty without a line before
  std::string text{};       // whole lines
  int line = 0;             // of the fence, counted from 1
  size_t begin = 0;         // where `text` lies in the document
};

// The sh and text blocks in order. Throws std::invalid_argument, with the line, for a fence without
// a language and a block that does not end.
std::vector<Block> blocks(std::string_view document);

// For each match of a regular expression, one after another, the whole and its groups.
std::vector<std::vector<std::string>> matches(const std::string& text, const std::string& pattern);

// The text after `key` in the directive ("Ctrl-C after: " gives "step 1000"); nothing if it has no
// such part.
std::string argument(const Block& block, std::string_view key);

struct CompareOptions {
  // The run was stopped or continued after a stop: that is at another step each time.
  bool interrupted = false;
};

// Empty if `shown` equals `printed`, else the difference, with both. Lines of different tasks may
// come in another order. Numbers with a point may differ by 2 % or 0.01 (numbers of a single batch
// by 10 % or 0.05), for other processors; whole numbers may not. Not compared: times, rates, ports,
// digests, cores, runs of blanks, and where a run was interrupted; nor lines about waits on a busy
// machine, if the block shows none.
std::string differences(std::string_view shown, std::string_view printed,
                        const CompareOptions& options = {});

// `printed`, with "…" where `shown` has it: the text that the document should show now. Throws
// std::invalid_argument naming the line of `shown` that nothing in `printed` resembles.
std::string refreshed(std::string_view shown, std::string_view printed,
                      const CompareOptions& options = {});

}  // namespace muster::docs
