# What scripts that outlive the connection share with those that look after them.
# Invariant: $state is whole at every moment, and only who holds the lock writes it: a worker, or who starts one.
folder=/var/lib/covey
run=/run/covey
state=$folder/state.json
# The address in the overlay that a join has given the machine.
given=$folder/address
# The worker is the process with this number that started at this time; so a number that is used again is no worker.
# One whose end is written is none any more, also while its process has yet to go.
is_working() {
    [ -f "$run/worker" ] && [ "$(field "$state" result)" = running ] || return 1
    worker=
    since=
    read -r worker since < "$run/worker" || true
    case "$worker" in '' | *[!0-9]*) return 1 ;; esac
    [ -n "$since" ] && [ "$(started_at "$worker")" = "$since" ]
}
# Step, result (running, done, failed, foreign) and words.
note() {
    answer operation "$operation" id "$id" step "$1" result "$2" message "${3:-}" nodeName "${node_name:-}" > "$state.new" \
        && mv -f "$state.new" "$state"
}
# For the worker itself: $1 of the script is its folder, $2 which start it is of.
work() {
    job=$1
    exec 9> "$run/lock"
    # Another one is at it, and has the same to do.
    flock -n 9 || exit 0
    # It was started anew since.
    last=
    { IFS= read -r last < "$job/attempt"; } 2> /dev/null || true
    [ "$last" = "$2" ] || exit 0
    printf '%s %s\n' "$$" "$(started_at $$)" > "$run/worker.new"
    mv -f "$run/worker.new" "$run/worker"
    parameters=$(cat "$job/told")
    operation=$(parameter operation)
    id=$(parameter id)
    step=start
    # What ends the script unasked is a failure with words.
    trap 'status=$?; if [ "$status" != 0 ]; then note "$step" failed "step $step ended with status $status: $(complaint)"; fi' EXIT
}
step() {
    step=$1
    # A complaint is one of this step.
    : > "$job/log"
    note "$step" running
}
# The end of what the step's program complained about. kubeadm may say the token, so tokens are taken out before it is cut.
complaint() { if [ -f "$job/log" ]; then sed 's/[a-z0-9]\{6\}\.[a-z0-9]\{16\}/[redacted]/g' "$job/log" | tail -c 300; fi; }
give_up() {
    trap - EXIT
    note "$step" "$1" "$2"
    exit 0
}
