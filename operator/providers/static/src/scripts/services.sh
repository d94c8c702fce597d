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
module_file=/etc/modules-load.d/covey.conf
sysctl_file=/etc/sysctl.d/90-covey.conf
