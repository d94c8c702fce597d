# Starts a worker: as a unit of its own where there is systemd, else as a session of its own. It outlives this
# connection, and whoever starts it twice finds it working.
operation=$(parameter operation)
id=$(parameter id)
seconds=$(parameter seconds)
case "$operation" in join | reset) ;; *) exit 64 ;; esac
case "$id" in '' | *[!0-9a-f]*) exit 64 ;; esac
case "$seconds" in '' | *[!0-9]*) exit 64 ;; esac
if is_working; then
    answer result working operation "$(field "$state" operation)" id "$(field "$state" id)"
    exit 0
fi
job=$run/$operation-$id
if ! { mkdir -p "$folder" "$job" && chmod 0700 "$folder" "$run" "$job" && : > "$folder/probe" && rm -f "$folder/probe" && : >> "$run/lock"; } 2> /dev/null; then
    answer result unwritable
    exit 0
fi
# Whoever holds it writes, and a worker that has just begun is not known by its number yet. One whose end is written
# is about to let go: were nothing started, its end would be taken for that of what was asked for now.
exec 9> "$run/lock"
tries=0
until flock -n 9; do
    if [ "$(field "$state" result)" = running ] || [ "$tries" -ge 50 ]; then
        answer result working operation "$(field "$state" operation)" id "$(field "$state" id)"
        exit 0
    fi
    tries=$((tries + 1))
    sleep 0.1 2> /dev/null || sleep 1
done
# A worker that has just begun may be reading them.
parameter script > "$job/script.new"
parameter told > "$job/told.new"
mv -f "$job/script.new" "$job/script"
mv -f "$job/told.new" "$job/told"
rm -f "$job/log"
# Only the worker that was started last does anything: one of a start before this, which has yet to begin, would do
# what was asked for now by what it was told then, or write its end over this one's.
attempt=
{ IFS= read -r attempt < "$job/attempt"; } 2> /dev/null || true
case "$attempt" in '' | *[!0-9]*) attempt=0 ;; esac
attempt=$((attempt + 1))
printf '%s\n' "$attempt" > "$job/attempt.new"
mv -f "$job/attempt.new" "$job/attempt"
note start running
# The worker takes it. Who comes between the two prepares another one, of which one will find the other at work.
exec 9>&-
if [ -d /run/systemd/system ] && has systemd-run; then
    unit=covey-$operation-$id-$attempt
    systemctl reset-failed "$unit.service" > /dev/null 2>&1 || true
    # Nothing of it goes to the journal.
    systemd-run --quiet --collect --unit "$unit" -p "RuntimeMaxSec=$seconds" -p UMask=0077 -p StandardInput=null \
        -p StandardOutput=null -p StandardError=null /bin/sh "$job/script" "$job" "$attempt" > /dev/null 2>&1
elif has timeout; then
    setsid timeout "$seconds" /bin/sh "$job/script" "$job" "$attempt" < /dev/null > /dev/null 2>&1 &
else
    setsid /bin/sh "$job/script" "$job" "$attempt" < /dev/null > /dev/null 2>&1 &
fi
answer result started operation "$operation" id "$id"
