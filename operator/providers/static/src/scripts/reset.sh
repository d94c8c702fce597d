# Makes the machine no node any more: in this order, each step repeatable, the owner's file last.
work "$1" "$2"
exec >> "$job/log" 2>&1
owner=$folder/owner.json

step owner
# Without owner nothing here is ours, or everything is undone already.
if [ ! -e "$owner" ]; then
    trap - EXIT
    note owner "done"
    exit 0
fi
[ "$(field "$owner" machine)" = "$(parameter machine)" ] \
    || give_up foreign "owner.json names another Machine: $(field "$owner" machine)"

end_all() {
    for process in /proc/[0-9]*; do
        name=
        { IFS= read -r name < "$process/comm"; } 2> /dev/null || continue
        if [ "$name" = "$1" ]; then kill "-$2" "${process#/proc/}" 2> /dev/null || true; fi
    done
}
# Everything mounted below; what is busy is taken out of sight, so that removing cannot reach what is in it.
unmount() {
    mounts_below "$1" | while IFS= read -r mount; do
        # One that hangs, on a disk that is gone, must not hold the lock.
        { umount "$mount" || umount -l "$mount" || true; } 9>&-
    done
}
# Never across a mount point: whose data that is nobody knows.
remove() {
    [ -d "$1" ] || return 0
    unmount "$1"
    below=$(mounts_below "$1" | head -n 1)
    [ -z "$below" ] || give_up failed "$below is still mounted below $1: unmount it, nothing there was removed"
    for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
        if [ -e "$entry" ] || [ -L "$entry" ]; then rm -rf "$entry" || give_up failed "$entry cannot be removed: $(complaint)"; fi
    done
    # A mount point or a link to another place stays, empty.
    rmdir "$1" 2> /dev/null || true
}

step kubelet
service disable kubelet || true
for signal in TERM TERM TERM TERM KILL KILL; do
    runs kubelet || break
    end_all kubelet "$signal"
    sleep 1
done
if runs kubelet; then give_up failed "the kubelet does not end"; fi

step mounts
unmount /var/lib/kubelet

step kubeadm
if has kubeadm; then
    if has timeout; then timeout 120 kubeadm reset --force 9>&- || true; else kubeadm reset --force 9>&- || true; fi
fi

step pods
if has crictl && runs containerd; then
    crictl --runtime-endpoint unix:///run/containerd/containerd.sock rmp --force --all 9>&- || true
elif has ctr && runs containerd; then
    for task in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io tasks rm --force "$task" 9>&- || true; done
    for container in $(ctr -n k8s.io containers ls -q); do ctr -n k8s.io containers rm "$container" 9>&- || true; done
fi
for name in kube-proxy flanneld link-node; do end_all "$name" KILL; done

# Not before pods are gone, which what was sent has ended. The archive stays: its digest is compared before it is used.
step programs
is_changed=false
for file in $sent_services; do
    if ! is_sent_service "$file"; then continue; fi
    case "$file" in *containerd*) service disable containerd || true ;; esac
    case "$file" in /etc/init.d/*) rm -f "/var/log/${file##*/}.log" ;; esac
    rm -f "$file"
    is_changed=true
done
rmdir "${kubelet_changes%/*}" 2> /dev/null || true
if [ "$is_changed" = true ] && [ -d /run/systemd/system ] && has systemctl; then systemctl daemon-reload || true; fi
sent_links | while IFS= read -r link; do rm -f "$link"; done
rm -f "$archive".covey-*

step files
for place in $folders; do remove "$place"; done

step links
for link in $(links); do
    for port in "/sys/class/net/$link/brif"/*; do
        if [ -e "$port" ]; then ip link delete "${port##*/}" || true; fi
    done
    if [ "$link" = kube-ipvs0 ] && has ipvsadm; then ipvsadm --clear || true; fi
    ip link delete "$link" || true
done

step rules
tables | while read -r family table; do nft delete table "$family" "$table" || true; done
for program in $(iptables_programs); do
    for table in nat filter mangle; do
        ours=$(our_chains "$program" "$table")
        [ -n "$ours" ] || continue
        # Rules elsewhere that lead to our chains; xargs reads their quotes and expands nothing.
        { "$program" -w -t "$table" -S || true; } \
            | awk '$1 == "-A" && $2 !~ /^(KUBE-|CNI-|FLANNEL-)/ && / -j (KUBE-|CNI-|FLANNEL-)/ { sub(/^-A /, ""); print }' \
            | while IFS= read -r rule; do printf '%s\n' "$rule" | xargs "$program" -w -t "$table" -D || true; done
        for chain in $ours; do "$program" -w -t "$table" -F "$chain" || true; done
        for chain in $ours; do "$program" -w -t "$table" -X "$chain" || true; done
    done
done
if has conntrack; then conntrack -F || true; fi

step settings
forget_name
take_address '' || give_up failed "the machine's address in the overlay cannot be taken off: $(complaint)"
rm -f "$module_file" "$sysctl_file" "$run/join.yaml"
# What a join that failed was told, its token among it.
rm -rf "$run"/join-* "$run/patches"
rm -f "$folder/looked"

step owner
rm -f "$job/told" "$job/script" "$job/log"
trap - EXIT
note owner "done"
rm -f "$owner"
