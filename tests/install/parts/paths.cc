// Counts the lines of a file as a data set, and prints the result for a path in a bucket in a
// program that links these parts.
#include <muster/core.h>

#include <iostream>

int lines_of(const char* path) {
  const auto files = muster::Dataset::from_files({path}, muster::data::text_line_format());
  const auto iterator = files.iterator();
  int lines = 0;
  while (iterator->next()) ++lines;
  return lines;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::cout << lines_of(argv[1]) << " lines\n";
  try {
    // It names no bucket: with the stores, the error says so, and no request is sent.
    lines_of("s3:///a");
  } catch (const muster::Error& error) {
    std::cout << error.message() << "\n" << error.hint() << "\n";
  }
}
