# What a node leaves behind.
# What was sent comes first. The last two have what the pods of its tenant have said; before them is the key of the overlay, which is of one node.
folders='/opt/covey /etc/kubernetes /var/lib/kubelet /etc/cni/net.d /var/lib/cni /run/flannel /var/lib/covey/overlay /var/log/pods /var/log/containers'
# Mounts below a folder, deepest first. Names with a line break stay unseen here, and the removal refuses itself.
mounts_below() {
    place=$(readlink -f "$1" 2> /dev/null || true)
    [ -n "$place" ] || return 0
    awk -v place="$place/" 'index($5 "/", place) == 1 && $5 "/" != place { print $5 }' /proc/self/mountinfo \
        | sed 's/\\040/ /g; s/\\011/\t/g; s/\\134/\\/g' | sort -r
}
links() {
    [ -d /sys/class/net ] || return 0
    for link in /sys/class/net/*; do
        link=${link##*/}
        case "$link" in cni0 | flannel.* | flannel-* | kube-ipvs0 | kube-bridge | covey0 | covey-wg*) echo "$link" ;; esac
    done
}
# Tables of nftables that are Kubernetes' alone.
tables() { if has nft; then { nft list tables 2> /dev/null || true; } | awk '$3 == "kube-proxy" || $3 ~ /^flannel-ipv[46]$/ { print $2, $3 }'; fi; }
# Programs that speak to the kernel's chains; old and new ones see different chains.
iptables_programs() { for program in iptables-nft iptables-legacy ip6tables-nft ip6tables-legacy iptables ip6tables; do if has "$program"; then echo "$program"; fi; done; }
our_chains() { { "$1" -w -t "$2" -S 2> /dev/null || true; } | awk '$1 == "-N" && $2 ~ /^(KUBE-|CNI-|CNI-HOSTPORT-|FLANNEL-)/ { print $2 }'; }
chains() {
    for program in $(iptables_programs); do
        for table in nat filter mangle; do our_chains "$program" "$table"; done
    done | sort -u
}
