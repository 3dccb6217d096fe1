// Linked into tests that run cpp-httplib: libraries of theirs are not instrumented, and what
// they lock with futexes looks like a race to the thread sanitizer. Our own code stays checked.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
#endif
