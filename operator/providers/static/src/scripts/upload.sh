# Takes a part of a file from standard input: behind what came before, beside its place; once all of it is there and has
# its digest, at its place. Without an offset it only says how much is there.
path=$(parameter path)
wanted=$(parameter sha256)
size=$(parameter size)
offset=$(parameter offset)
case "$wanted" in '' | *[!0-9a-f]*) exit 64 ;; esac
case "$size" in '' | *[!0-9]*) exit 64 ;; esac
digest() { sha256sum "$1" 2> /dev/null | cut -d ' ' -f 1; }
if [ -f "$path" ] && [ ! -L "$path" ] && [ "$(digest "$path")" = "$wanted" ]; then
    chmod "$(parameter mode)" "$path"
    answer result present
    exit 0
fi
mkdir -p "${path%/*}"
# Named by its digest, so that whoever goes on goes on with the same file.
draft=$path.covey-$(printf '%s' "$wanted" | cut -c 1-16)
# Those of other files are of no use any more; they are large.
for old in "$path".covey-*; do
    if [ -e "$old" ] && [ "$old" != "$draft" ]; then rm -f "$old"; fi
done
have() { if [ -f "$draft" ]; then wc -c < "$draft" | tr -cd '0-9'; else echo 0; fi; }
there=$(have)
# A longer one is of two that wrote at once.
if [ "$there" -gt "$size" ]; then
    rm -f "$draft"
    there=0
fi
if [ -n "$offset" ] && [ "$offset" = "$there" ]; then
    if ! cat >> "$draft"; then
        answer result unwritable
        exit 0
    fi
    there=$(have)
fi
if [ "$there" -lt "$size" ]; then
    answer result part have "$there"
    exit 0
fi
found=$(digest "$draft")
if [ "$found" != "$wanted" ]; then
    rm -f "$draft"
    answer result mismatch sha256 "$found"
    exit 0
fi
chmod "$(parameter mode)" "$draft"
sync "$draft" 2> /dev/null || sync
mv -f "$draft" "$path"
answer result written
