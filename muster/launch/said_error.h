// The errors in a program's output, as Muster's programs and commands print them. Thread safety:
// pure functions, and a class for one thread at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace muster::inline v0_1::launch {

// Whether a line a program printed begins an error: "error: ..." of a command, or "E 12:03:45 ..."
// of the log, or an object of its JSON form with "level": "error".
bool is_error_line(std::string_view line);

// The text of such a line without the level and the time of the log: "NotFound: no data". For a
// JSON object, the first line of its message.
std::string error_words(std::string_view line);

// Whether an error says that a peer was lost, or did not come in time.
bool blames_another(std::string_view error);
// Whether an error repeats another task's failure: "...: worker 1 failed at step 3: ...".
bool repeats_another(std::string_view error);
// The task that such an error names first, as a job names it: "worker-1", "chief-0"; empty for
// none.
std::string task_blamed(std::string_view error);
// The last error of a program, whose lines are added as they come.
class SaidError {
 public:
  static constexpr std::size_t kMostLines = 20;  // that lines() returns

  // Takes a line, without its end. Returns whether it belongs to an error. The first line of an
  // error replaces the error before.
  bool add(std::string_view line);

  // Whether there was none.
  bool empty() const { return count_ == 0; }
  // The line with which it begins; for the log's JSON form, the first line of the message. Empty
  // for none.
  std::string first_line() const { return empty() ? "" : first_.front(); }
  // That line and the lines that belong to it: after an error of the log the indented lines that
  // follow, and after an error of a command its hint too. Of more than kMostLines it returns the
  // first ones, the number of the others, and the causes and the hint, with which it ends.
  std::vector<std::string> lines() const;

 private:
  void keep(std::string_view line);

  std::vector<std::string> first_;
  std::deque<std::string> last_;
  std::size_t count_ = 0;
  bool open_ = false;        // lines that belong to it may come
  bool of_command_ = false;  // "error: ..."
};

}  // namespace muster::inline v0_1::launch
