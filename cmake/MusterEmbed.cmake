# cmake -DROOT=FOLDER -DFILES=a;b -DVERSION=0.1 -DOUT=FILE -P MusterEmbed.cmake
# Writes the C++ source of new_project_template(): the files of a folder, as text.
set(entries "")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} text)
  string(REPLACE "@MUSTER_VERSION@" "${VERSION}" text "${text}")
  # Under its own name the file would hide others from git; and its like beside it.
  string(REGEX REPLACE "^(gitignore|dockerignore)$" ".\\1" path "${file}")
  string(APPEND entries "      {\"${path}\", R\"muster(${text})muster\"},\n")
endforeach()
file(WRITE ${OUT} "// Made by MusterEmbed.cmake.
#include \"apps/muster/new_project.h\"

namespace muster::app {

const std::vector<TemplateFile>& new_project_template() {
  static const auto* const files = new std::vector<TemplateFile>{
${entries}  };
  return *files;
}

}  // namespace muster::app
")
