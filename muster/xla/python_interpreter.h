// A Python interpreter inside of this process, by the C functions of a libpython that is loaded at
// run time: Muster is built without Python's headers, and runs with any Python from 3.10 on.
// Thread safety: every function may be called from any thread; each takes Python's lock.
#pragma once

#include <cstdint>
#include <string>

#include "muster/xla/python_installation.h"

namespace muster::inline v0_1::xla {

// There is one for each process. It ends with the process.
class PythonInterpreter {
 public:
  // Starts it, and runs `source`, which defines functions. Throws std::runtime_error with Python's
  // message.
  PythonInterpreter(const PythonInstallation& python, const std::string& source);

  // Calls a function of the source with a whole number, and returns the whole number it returns
  // (None: 0). Throws std::runtime_error with the exception's text.
  int64_t call(const char* function, int64_t argument = 0) const;

  // From now on, exit() calls the functions that Python's modules registered for the end of a
  // process, before the older thread_local objects of the main thread are destroyed. Call it once,
  // on the main thread, when the modules have made their objects. If another thread calls it, or
  // exit(), these functions are not called; the process then ends without the destructors of static
  // objects that are older than this call.
  void run_exit_functions_later() const;

 private:
  void* module_ = nullptr;  // a dictionary with the functions
};

}  // namespace muster::inline v0_1::xla
