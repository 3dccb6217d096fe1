#include "muster/xla/python_interpreter.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

namespace muster::inline v0_1::xla {
namespace {

using Object = void;  // PyObject

void* library = nullptr;

template <typename Function>
Function find(const char* name) {
  if (void* const found = dlsym(library, name)) return reinterpret_cast<Function>(found);
  throw std::runtime_error(std::string("libpython has no ") + name);
}

// While one exists, this thread has Python's lock.
class Locked {
 public:
  Locked() : state_(find<int (*)()>("PyGILState_Ensure")()) {}
  ~Locked() { find<void (*)(int)>("PyGILState_Release")(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  int state_;
};

void release(Object* object) {
  if (object != nullptr) find<void (*)(Object*)>("Py_DecRef")(object);
}

std::string text_of(Object* object) {
  Object* const text =
      object != nullptr ? find<Object* (*)(Object*)>("PyObject_Str")(object) : nullptr;
  const char* const bytes =
      text != nullptr ? find<const char* (*)(Object*)>("PyUnicode_AsUTF8")(text) : nullptr;
  std::string result = bytes != nullptr ? bytes : "";
  release(text);
  return result;
}

// Throws the exception that Python has raised: std::invalid_argument for a ValueError.
[[noreturn]] void throw_raised() {
  Object *type = nullptr, *value = nullptr, *trace = nullptr;
  find<void (*)(Object**, Object**, Object**)>("PyErr_Fetch")(&type, &value, &trace);
  find<void (*)(Object**, Object**, Object**)>("PyErr_NormalizeException")(&type, &value, &trace);
  std::string text = text_of(value);
  if (text.empty()) text = text_of(type);
  const bool wrong_use = find<int (*)(Object*, Object*)>("PyErr_GivenExceptionMatches")(
                             type, *find<Object**>("PyExc_ValueError")) != 0;
  for (Object* one : {type, value, trace}) release(one);
  if (wrong_use) throw std::invalid_argument(text);
  throw std::runtime_error(text);
}

std::atomic<bool> exit_functions_ran = false;

// While the thread_local objects of the main thread are destroyed, in the reverse order of their
// construction. torch_xla has one, the current device, which its exit function reads: this object
// is younger than that one. The interpreter is not finalized, because objects of C++ may still
// call it.
struct ExitFunctions {
  ~ExitFunctions() {
    exit_functions_ran = true;
    const Locked locked;
    find<int (*)(const char*, void*)>("PyRun_SimpleStringFlags")(
        "import atexit; atexit._run_exitfuncs()", nullptr);
  }
};

// If another thread called exit(), or loaded the packages: torch_xla's objects can no longer be
// destroyed in their order, which would end the process by a signal. So the process ends here, with
// its exit code, before the destructors of older static objects.
void end_process(int status, void*) {
  if (exit_functions_ran) return;
  std::cout.flush();
  fflush(nullptr);
  _exit(status);
}

std::string quoted_for_python(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') result += '\\';
    result += c;
  }
  return result + "'";
}

}  // namespace

PythonInterpreter::PythonInterpreter(const PythonInstallation& python, const std::string& source) {
  // Global: extensions of Python, like numpy's, expect its symbols in the process.
  library = dlopen(python.library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  if (find<int (*)()>("Py_IsInitialized")() == 0) {
    setenv("PYTHONHOME", python.home.c_str(), 1);  // for the standard library of this very Python
    find<void (*)(int)>("Py_InitializeEx")(/*signal handlers*/ 0);
    unsetenv("PYTHONHOME");  // other Pythons, which the process starts, have homes of their own
    find<void* (*)()>("PyEval_SaveThread")();
  }
  const Locked locked;
  std::string all = "import sys\nsys.path[:] = [";
  for (const std::string& path : python.search_path) all += quoted_for_python(path) + ", ";
  all += "]\n" + source;
  module_ = find<Object* (*)()>("PyDict_New")();
  Object* const builtins = find<Object* (*)()>("PyEval_GetBuiltins")();
  find<int (*)(Object*, const char*, Object*)>("PyDict_SetItemString")(module_, "__builtins__",
                                                                       builtins);
  constexpr int kFile = 257;  // Py_file_input
  Object* const result = find<Object* (*)(const char*, int, Object*, Object*)>("PyRun_String")(
      all.c_str(), kFile, module_, module_);
  if (result == nullptr) throw_raised();
  release(result);
}

void PythonInterpreter::run_exit_functions_later() const {
  if (gettid() == getpid()) {
    static thread_local const ExitFunctions functions;
    (void)functions;
  }
  on_exit(end_process, nullptr);
}

int64_t PythonInterpreter::call(const char* function, int64_t argument) const {
  const Locked locked;
  Object* const called =
      find<Object* (*)(Object*, const char*)>("PyDict_GetItemString")(module_, function);
  if (called == nullptr) throw std::runtime_error(std::string("there is no function ") + function);
  Object* const number = find<Object* (*)(long long)>("PyLong_FromLongLong")(argument);
  Object* const result =
      find<Object* (*)(Object*, ...)>("PyObject_CallFunctionObjArgs")(called, number, nullptr);
  release(number);
  if (result == nullptr) throw_raised();
  const bool nothing = text_of(result) == "None";
  const int64_t value = nothing ? 0 : find<long long (*)(Object*)>("PyLong_AsLongLong")(result);
  release(result);
  return value;
}

}  // namespace muster::inline v0_1::xla
