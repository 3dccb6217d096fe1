# Doxygen's input filter: our comments are plain // blocks, which Doxygen does not read. Line for line, so that the
# line numbers of its warnings are right.
#   - the comment at the top of a header becomes the documentation of the file, and of the class the file is named
#     after (dataset.h: Dataset) when that has none of its own;
#   - a block before a declaration becomes its documentation, and that of the declarations right under it which have
#     none (up to the next comment or empty line); accessors say enough by their names;
#   - "// text" behind a field or an enumerator belongs to it, with the lines that continue it;
#   - lines indented by two more blanks are code; a line "--- text ---" only divides a class;
#   - a parameter /*name*/ nobody uses is shown with its name;
#   - comments in bodies stay comments; the inline namespace of the version and the marks of exports are not shown.
!/^#/ { gsub(/MUSTER_(PART_)?EXPORT /, "") }
{ line[NR] = $0 }

# Everything Doxygen and Markdown would take for a command, but not inside of `code`, nor inside of "quotes", which
# Doxygen shows as they are. A quote may go on in the next line: `quoted` says so.
function escaped(text,    parts, count, i, out) {
  count = split(text, parts, "`")
  for (i = 1; i <= count; ++i) {
    if (i % 2 == 1 || (i == count)) parts[i] = escaped_outside_quotes(parts[i])
    out = out (i > 1 ? "`" : "") parts[i]
  }
  return out
}

function escaped_outside_quotes(text,    parts, count, i, out) {
  count = split(text, parts, "\"")
  for (i = 1; i <= count; ++i) {
    if (i > 1) quoted = !quoted
    if (!quoted) {
      gsub(/\\/, "&&", parts[i])
      gsub(/[<>#@%&*]/, "\\\\&", parts[i])
      gsub(/--+/, "\\\\&", parts[i])
    }
    out = out (i > 1 ? "\"" : "") parts[i]
  }
  return out
}

function comment_of(text) { sub(/^[ \t]*\/\/ ?/, "", text); return text }
function is_comment(i) { return line[i] ~ /^[ \t]*\/\// }
function is_divider(text) { return text ~ /^---/ || text ~ /---$/ }
function is_code(text, before) { return text ~ /^  / && text !~ /^ *([0-9]+\.|-) / && before !~ /^ *([0-9]+\.|-) / }

# Lines from..to as documentation; leaves the text on one line in `shared`.
function document(from, to,    i, text, inside, item, indent, next_text, out) {
  shared = ""
  quoted = 0
  for (i = from; i <= to; ++i) {
    indent = line[i]
    sub(/\/\/.*/, "", indent)
    text = comment_of(line[i])
    if (is_divider(text)) { print indent "///"; continue }
    if (text !~ /^  /) item = text
    if (is_code(text, item)) {
      next_text = i < to ? comment_of(line[i + 1]) : ""
      out = text
      if (next_text == "" && i + 1 < to && comment_of(line[i + 2]) ~ /^  /) next_text = "  "
      if (!is_code(next_text, item)) { out = out " \\endcode"; inside = 0 }
      print indent "/// " out
      continue
    }
    if (inside) { print indent "///"; continue }
    if (text == "") quoted = 0
    out = escaped(text)
    shared = shared (text == "" ? " <br>" : " " out)
    if (i < to && is_code(comment_of(line[i + 1]), item)) { out = out " \\code{.cpp}"; inside = 1 }
    print indent (out == "" ? "///" : "/// " out)
  }
  shared_depth = depth
}

# The column of "//" outside of a text, 0 without one.
function comment_column(text,    i, c, quote) {
  for (i = 1; i <= length(text); ++i) {
    c = substr(text, i, 1)
    if (quote != "") {
      if (c == "\\") ++i
      else if (c == quote) quote = ""
    } else if (c == "\"" || (c == "'" && substr(text, i - 1, 1) !~ /[0-9a-fA-F]/)) {
      quote = c
    } else if (c == "/" && substr(text, i + 1, 1) == "/") {
      return i
    }
  }
  return 0
}

function inside_body() { return depth > 0 && kind[depth] == "body" }

# Follows braces: which of them open a namespace, a class, an enumeration, a body.
function follow(code,    i, c) {
  gsub(/"([^"\\]|\\.)*"/, "", code)
  gsub(/'([^'\\]|\\.)'/, "", code)
  for (i = 1; i <= length(code); ++i) {
    c = substr(code, i, 1)
    if (c == "{") {
      ++depth
      if (declaration ~ /(^|[^A-Za-z_])namespace([^A-Za-z_]|$)/) kind[depth] = "namespace"
      else if (parens == 0 && declaration ~ /(^|[^A-Za-z_])enum([^A-Za-z_]|$)/) kind[depth] = "enum"
      else if (parens == 0 && declaration !~ /\)/ && declaration ~ /(^|[^A-Za-z_])(class|struct|union)([^A-Za-z_]|$)/)
        kind[depth] = "class"
      else kind[depth] = "body"
      saved[depth] = declaration
      declaration = ""
    } else if (c == "}") {
      # A body ends its function; initialisers and lists stand inside of a declaration that goes on.
      declaration = (kind[depth] == "body" && saved[depth] !~ /\)[^=]*$/) || parens > 0 ? saved[depth] "{}" : ""
      --depth
    } else {
      if (c == "(") ++parens
      if (c == ")") --parens
      if (c == ";" && parens == 0) declaration = ""
      else declaration = declaration c
    }
  }
  if (declaration ~ /^[ \t]*$/ || declaration ~ /^[ \t]*(public|private|protected)[ \t]*:[ \t]*$/) declaration = ""
}

# The whole declaration that begins on line i, and whether a comment stands behind it.
function look_ahead(i,    j, text) {
  ahead = ""
  ahead_commented = 0
  for (j = i; j <= NR && j < i + 12; ++j) {
    text = line[j]
    if (comment_column(text)) { ahead_commented = 1; text = substr(text, 1, comment_column(text) - 1) }
    ahead = ahead " " text
    if (text ~ /[;{}][ \t]*$/) return
  }
}

# Whether the comment above speaks of the declaration on line i too: a function or type that says nothing itself.
function covered_too(i) {
  look_ahead(i)
  if (ahead_commented || ahead ~ /operator|~|= *(delete|default);|friend |^ *(}|(class|struct|enum|private|public|protected)[ :])/) return 0
  if (ahead ~ /^ *(explicit |constexpr )*[A-Z][A-Za-z0-9]*\(/) return 0  # a constructor
  if (ahead ~ /^ *using [A-Za-z]+ =/) return 1
  if (ahead !~ /\(/ || ahead ~ /^[^(]*=/ || ahead ~ /^ *using /) return 0       # a field
  if (depth > 0 && kind[depth] == "class" && ahead ~ /{/) return 0          # its body says it
  return ahead !~ /\(\)[^;{]*const/                                         # an accessor
}

END {
  i = 1
  if (is_comment(1)) {
    for (j = 1; j < NR && is_comment(j + 1); ++j) {}
    document(1, j)
    i = j + 1
    if (line[i] ~ /^#pragma once/) { print "/// \\file"; ++i }
    count = split(FILENAME, path, "/")
    split(path[count], stem, ".")
    main_class = stem[1]
    gsub(/_/, "", main_class)
  }
  shared = ""
  for (; i <= NR; ++i) {
    text = line[i]
    sub(/::inline v0_1/, "", text)
    if (is_comment(i)) {
      for (j = i; j < NR && is_comment(j + 1); ++j) {}
      if (trailing > 0 && match(text, /\/\//) == trailing && !inside_body()) {
        for (; i <= j; ++i) {
          text = line[i]
          print substr(text, 1, trailing - 1) "//!< " escaped(comment_of(text))
        }
        --i
        continue
      }
      trailing = 0
      if (inside_body() || j == NR || line[j + 1] ~ /^[ \t]*(}.*|#.*)?$/ || declaration != "") {
        for (; i <= j; ++i) print line[i]
        if (!inside_body()) shared = ""
      } else {
        document(i, j)
        i = j + 1
      }
      --i
      if (i < j) i = j
      continue
    }
    trailing = 0
    if (text ~ /^[ \t]*$/ && !inside_body()) shared = ""
    if (text ~ /^#/) { print text; continue }
    if (!inside_body()) text = with_parameter_names(text)
    column = comment_column(text)
    code = column ? substr(text, 1, column - 1) : text
    was_inside = inside_body()
    first = declaration == "" && code !~ /^[ \t]*$/
    prefix = ""
    if (first && !was_inside && shared != "" && depth == shared_depth && !fresh_comment(i) && covered_too(i)) {
      prefix = "/**" shared " */ "
    }
    if (first && !was_inside && !fresh_comment(i) && tolower(code) ~ "^(class|struct) (\\[\\[nodiscard\\]\\] )?" main_class " (: .*)?{")
      prefix = "/** \\copydoc " FILENAME " */ "
    follow(code)
    if (column && !was_inside && code ~ /[;,}A-Za-z0-9_)=][ \t]*$/ && code !~ /^[ \t]*(}|(class|struct) [A-Za-z]+;)/ &&
        substr(text, column) !~ /NOLINT/) {
      trailing = column
      quoted = 0
      text = code "//!< " escaped(comment_of(substr(text, column)))
    }
    print prefix text
  }
}

# "int /*step*/" is "int step".
function with_parameter_names(text) {
  while (match(text, / \/\*[a-z_]+\*\/[,)]/))
    text = substr(text, 1, RSTART) substr(text, RSTART + 3, RLENGTH - 6) substr(text, RSTART + RLENGTH - 1)
  return text
}

# Whether the line stands right under its own comment.
function fresh_comment(i) { return i > 1 && is_comment(i - 1) }
