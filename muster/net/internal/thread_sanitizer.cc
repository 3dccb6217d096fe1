// Linked into tests that run cpp-httplib: its libraries are not instrumented, and their futex locks
// look like races to the thread sanitizer. Our own code stays checked.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
#endif
