# Of Doxygen's warnings, those that count. Every public class, enumeration, type and function needs a contract. Fields,
# enumerators, accessors, constructors, operators and what overrides a documented function may stand on their names.
/ is not documented\.$/ {
  if (/\((variable|enumvalue)\)/) next
  if (/\(function\) of (class|struct) /) {
    if (/: Member (~|[A-Z]|operator)/ || /\(\) const( |=|\()/ || / override \(function\)/) next
  }
  gsub(/is not documented/, "has no comment that says what it promises")
}
{ print }
