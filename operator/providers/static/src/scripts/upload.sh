# Takes a file from standard input: beside its place first, then its digest, then its place.
path=$(parameter path)
wanted=$(parameter sha256)
digest() { sha256sum "$1" 2> /dev/null | cut -d ' ' -f 1; }
if [ -f "$path" ] && [ ! -L "$path" ] && [ "$(digest "$path")" = "$wanted" ]; then
    chmod "$(parameter mode)" "$path"
    answer result present
    exit 0
fi
mkdir -p "${path%/*}"
draft=$path.covey-$$
# Drafts of uploads that were killed; they are large.
for old in "$path".covey-*; do
    if [ -e "$old" ] && [ ! -d "/proc/${old##*-}" ]; then rm -f "$old"; fi
done
trap 'rm -f "$draft"' EXIT
cat > "$draft"
found=$(digest "$draft")
if [ "$found" != "$wanted" ]; then
    answer result mismatch sha256 "$found"
    exit 0
fi
chmod "$(parameter mode)" "$draft"
sync "$draft" 2> /dev/null || sync
mv -f "$draft" "$path"
answer result written
