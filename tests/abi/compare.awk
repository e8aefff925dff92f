# compare.awk -v header=NAME OURS.h: C that compares each type and value of one of our headers with NVIDIA's, which
# the file that includes the result has included before. Wants what clang-format writes: one
# enumerator, field or typedef a statement.
#
# Typedefs of pointers are declared again: C takes that only for the same type. Of NVIDIA's values,
# sizes and offsets constants are kept; then every name gets a prefix, ours are included, and the two
# compared.

function constant(expression, what) {
    kept = kept "    nvidia_" ++n " = (int)(" expression "),\n"
    compared = compared "_Static_assert(nvidia_" n " == (int)(" expression "), \"" what "\");\n"
}

function rename(name) {
    names = names "#undef " name "\n#define " name " ours_" name "\n"
}

function statement(s,    name) {
    gsub(/[ \t]+/, " ", s)
    sub(/^ /, "", s)
    if (s ~ /^typedef (struct|union) \{$/) { kind[++depth] = "struct"; fields = 0; return }
    if (s ~ /^(typedef )?enum \{$/) { kind[++depth] = "enum"; return }
    if (s ~ /\{$/) { kind[++depth] = "inner"; return }
    if (s ~ /^\}/) {
        name = s
        gsub(/[} ;]/, "", name)
        if (kind[depth] == "struct") {
            rename(name)
            constant("sizeof(" name ")", "size of " name)
            for (i = 1; i <= fields; i++) {
                constant("offsetof(" name ", " field[i] ")", "place of " name "." field[i])
                constant("sizeof(((" name " *)0)->" field[i] ")", "size of " name "." field[i])
            }
        } else if (kind[depth] == "inner" && depth == 2) {
            field[++fields] = name
        } else if (kind[depth] == "enum" && name != "") {
            rename(name)
            constant("sizeof(" name ")", "size of " name)
        }
        depth--
        return
    }
    if (depth && kind[depth] == "enum") {
        name = s
        sub(/ = .*/, "", name)
        rename(name)
        constant(name, "value of " name)
    } else if (depth == 1 && kind[depth] == "struct") {
        name = s
        if (!sub(/.*\(\*/, "", name) || !sub(/\).*/, "", name)) {
            sub(/(\[[0-9]*\])?;$/, "", name)
            sub(/.*[ *]/, "", name)
        }
        field[++fields] = name
    } else if (!depth && s ~ /^typedef /) {
        name = s
        if (!sub(/.*\(\*/, "", name) || !sub(/\).*/, "", name)) {
            sub(/;$/, "", name)
            sub(/.*[ *]/, "", name)
        }
        again = again s "\n"
        rename(name)
    }
}

{
    while (in_comment || match($0, /\/\*/)) {
        if (!in_comment) {
            before = substr($0, 1, RSTART - 1)
            $0 = substr($0, RSTART + 2)
            in_comment = 1
        }
        if (!match($0, /\*\//)) { $0 = before; before = ""; break }
        $0 = before substr($0, RSTART + 2)
        before = ""
        in_comment = 0
    }
    sub(/[ \t]+$/, "")
    if ($0 == "" || $0 ~ /^#/)
        next
    text = text " " $0
    if ($0 ~ /[;{,]$/ && (depth ? text !~ /\([^)]*$/ : $0 ~ /[;{]$/)) {
        statement(text)
        text = ""
    }
}

END {
    printf "%s\nenum {\n%s};\n\n%s\n#include \"%s\"\n\n%s", again, kept, names, header, compared
    printf "enum { COMPARED = %d };\n", n
}
