# Services of the machine, by whoever looks after them there.
service() {
    if [ -d /run/systemd/system ] && has systemctl; then
        case "$1" in
            start) systemctl enable "$2" && systemctl restart "$2" ;;
            enable) systemctl enable "$2" ;;
            stop) systemctl stop "$2" ;;
            disable) systemctl disable --now "$2" ;;
        esac
    elif has rc-service; then
        case "$1" in
            start) { rc-update add "$2" default || true; } && rc-service "$2" restart ;;
            enable) rc-update add "$2" default || [ -e "/etc/runlevels/default/$2" ] ;;
            stop) rc-service "$2" stop ;;
            disable) rc-service "$2" stop; rc-update del "$2" default ;;
        esac
    else
        echo "neither systemd nor OpenRC is there to $1 $2"
        return 1
    fi
    # What is started here outlives the worker and must not hold its lock.
} 9>&-
# The machine's own names are others, and no DNS knows the node's.
forget_name() {
    if grep -qs ' # covey$' /etc/hosts; then
        kept=0
        grep -v ' # covey$' /etc/hosts > "$run/hosts" || kept=$?
        # Into the file as it is, which may be a mount. 1: no other line is there.
        if [ "$kept" -le 1 ] && [ -e "$run/hosts" ]; then cat "$run/hosts" > /etc/hosts || true; fi
        rm -f "$run/hosts"
    fi
}
module_file=/etc/modules-load.d/covey.conf
sysctl_file=/etc/sysctl.d/90-covey.conf
width() { case "$1" in *:*) echo 128 ;; *) echo 32 ;; esac; }
has_given() { { ip -o address show dev lo 2> /dev/null || true; } | grep -qF " $1/"; }
# Takes the address away that a join has given the machine, unless it is this one.
take_address() {
    before=
    if [ -f "$given" ]; then IFS= read -r before < "$given" || true; fi
    if [ -n "$before" ] && [ "$before" != "$1" ] && has_given "$before"; then
        ip address del "$before/$(width "$before")" dev lo || return 1
    fi
    if [ -z "$1" ] || [ "$before" != "$1" ]; then rm -f "$given" "$given.new"; fi
}
