# What targets need of the house and of the machine, by reading the CMakeLists.txt that are given: what has to be
# installed can be known before CMake is.
#   awk -v want="mnist muster" -f tools/needs.awk FILE...        these targets
#   awk -v folder=muster/plan -f tools/needs.awk FILE...         the tests of a folder
# Prints "asked NAME" for those, "target NAME" for each that they need, themselves too, and "word WORD" for each other word
# of their declarations: ./dev knows the packages of some. Ends with 3 for a target that no file declares, with its name.
# With -v lean=1 nothing is built for OPTIONAL_DEPS, which are linked where they are built, and for add_dependencies().

function finish_file(  rest, name, words, end, count, i, parts) {
  gsub(/[ \t\n]+/, " ", text)
  rest = text
  while (match(rest, /(muster_library|muster_test|muster_executable|add_dependencies|set)\(/)) {
    name = substr(rest, RSTART, RLENGTH - 1)
    rest = substr(rest, RSTART + RLENGTH)
    end = index(rest, ")")
    words = substr(rest, 1, end - 1)
    rest = substr(rest, end + 1)
    declare(name, words)
  }
  text = ""
}

function declare(kind, words,  count, part, i, target) {
  count = split(words, part, " ")
  if (kind == "set") {
    # Each value that a variable of this file may have.
    for (i = 2; i <= count; ++i) variable[file, part[1]] = variable[file, part[1]] " " part[i]
    return
  }
  if (kind == "add_dependencies") {
    for (i = 2; i <= count; ++i) needs[part[1]] = needs[part[1]] " @" part[i]
    return
  }
  for (i = 1; i < count; ++i) if (part[i] == "NAME") target = part[i + 1]
  where[target] = file
  needs[target] = needs[target] " " kind " " words
  if (kind == "muster_test" && file == folder "/CMakeLists.txt") want = want " " target
}

FNR == 1 {
  finish_file()
  file = FILENAME
}
{
  sub(/#.*/, "")
  text = text " " $0
}

END {
  finish_file()
  waiting = split(want, queue, " ")
  for (at = 1; at <= waiting; ++at) print "asked " queue[at]
  for (at = 1; at <= waiting; ++at) {
    target = queue[at]
    if (target in seen) continue
    seen[target] = 1
    if (!(target in where)) {
      print target
      exit 3
    }
    print "target " target
    count = split(needs[target], part, " ")
    optional = 0
    for (i = 1; i <= count; ++i) {
      word = part[i]
      if (word == "OPTIONAL_DEPS") optional = lean
      else if (word ~ /^[A-Z_]+$/) optional = 0
      if (word ~ /^\$\{/) {
        # Its values take its place at the end of the list.
        more = split(variable[where[target], substr(word, 3, length(word) - 3)], value, " ")
        for (j = 1; j <= more; ++j) part[++count] = value[j]
      } else if (word ~ /^@/) {
        if (!lean && substr(word, 2) in where) queue[++waiting] = substr(word, 2)
      } else if (word ~ /^muster::/ && word != "muster::fast_allocator") {
        # The library of all parts is none of these declarations.
        if (!optional) queue[++waiting] = word == "muster::muster" ? word : substr(word, 9)
      } else if (!optional && word !~ /\.cc$/) {
        words[word] = 1
      }
    }
  }
  for (word in words) print "word " word
}
