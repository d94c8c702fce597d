# What every script begins with. POSIX sh; dash and busybox run it.
# Invariant: values come from $parameters alone, and leave as one line of flat JSON.
set -eu
umask 077

# Value of a flat JSON document on standard input whose texts hold no quote and no backslash as they are.
json_value() {
    awk -v RS='"' -v name="$1" '
        NR % 4 == 2 { key = $0 }
        NR % 4 == 0 && key == name {
            gsub(/\\n/, "\n"); gsub(/\\t/, "\t"); gsub(/\\u0022/, "\""); gsub(/\\u005c/, "\\")
            printf "%s", $0
        }'
}
parameter() { printf '%s\n' "$parameters" | json_value "$1"; }
# Value of such a document in a file; empty when there is none.
field() { if [ -f "$1" ]; then json_value "$2" < "$1"; fi; }
json_text() { printf '%s' "$1" | LC_ALL=C tr '\n\t' '  ' | LC_ALL=C tr -cd '\040-\176' | sed 's/\\/\\u005c/g; s/"/\\u0022/g'; }
# Names and values in turn.
answer() {
    line=
    while [ $# -ge 2 ]; do
        line="$line${line:+,}\"$1\":\"$(json_text "$2")\""
        shift 2
    done
    printf '{%s}\n' "$line"
}
true_if() { if "$@" > /dev/null 2>&1; then echo true; else echo false; fi; }
has() { command -v "$1" > /dev/null 2>&1; }
# Whether a process of this name runs; names are those of the kernel, 15 bytes.
runs() {
    for process in /proc/[0-9]*; do
        name=
        { IFS= read -r name < "$process/comm"; } 2> /dev/null || continue
        if [ "$name" = "$1" ] && [ -n "$(started_at "${process#/proc/}")" ]; then return 0; fi
    done
    return 1
}
# Whether somebody listens on a TCP port, given in four hexadecimal digits.
listens() {
    for table in /proc/net/tcp /proc/net/tcp6; do
        [ -r "$table" ] || continue
        found=$(awk -v port="$1" 'NR > 1 { n = split($2, part, ":"); if (part[n] == port && $4 == "0A") found = 1 } END { print found + 0 }' "$table")
        if [ "$found" = 1 ]; then return 0; fi
    done
    return 1
}
# The certificate authority that the kubelet believes, in base64; empty without kubeconfig.
kubelet_authority() {
    if [ -f /etc/kubernetes/kubelet.conf ]; then
        sed -n 's/^ *certificate-authority-data: *//p' /etc/kubernetes/kubelet.conf | head -n 1
    fi
}
# Its digest; empty where there is none.
kubelet_ca() {
    data=$(kubelet_authority)
    if [ -n "$data" ]; then printf '%s' "$data" | base64 -d 2> /dev/null | sha256sum | cut -d ' ' -f 1; fi
}
# When a process started, in ticks since boot: with its number it is never another one. Empty once it has ended, also
# while nobody has taken notice of that.
started_at() { { sed 's/^.*) //' "/proc/$1/stat" | awk '$1 != "Z" && $1 != "X" { print $20 }'; } 2> /dev/null || true; }
