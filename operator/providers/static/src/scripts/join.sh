# Makes the machine a node. Each step looks first whether it is done.
work "$1" "$2"
exec >> "$job/log" 2>&1
config=$run/join.yaml

step owner
[ "$(field "$folder/owner.json" machine)" = "$(parameter machine)" ] \
    || give_up foreign "owner.json names another Machine: $(field "$folder/owner.json" machine)"
found=$(kubelet_ca)
# What was believed when the operator compared its certificates, where a node is taken over.
if [ -n "$found" ] && [ "$found" != "$(parameter ca)" ] && [ "$found" != "$(parameter before)" ]; then
    give_up foreign "its kubelet belongs to another cluster: the digest of its authority is $found"
fi

# What the script goes on with once it is done; the kubelet believes our authority then.
report() {
    step report
    node_name=$(parameter nodeName)
    found=$(kubelet_ca)
    [ "$found" = "$(parameter ca)" ] || give_up failed "the kubelet believes another authority after the join: $found"
    rm -f "$job/log" "$job/script"
    trap - EXIT
    note report "done"
    exit 0
}

# A node that is taken over as it runs: it is shown the way to the API and the whole authority, and nothing else of it
# is touched. Pods go on without their kubelet.
if [ "$(parameter adopts)" = true ]; then
    step adopt
    [ -n "$found" ] || give_up foreign "there is no kubelet.conf any more: the node is none now"
    kubeconfig=/etc/kubernetes/kubelet.conf
    cp -p "$kubeconfig" "$kubeconfig.covey"
    # Both are texts without a backslash.
    awk -v server="$(parameter server)" -v authority="$(parameter authority)" '
        /^ *server:/ { sub(/server:.*/, "server: " server) }
        /^ *certificate-authority-data:/ { sub(/certificate-authority-data:.*/, "certificate-authority-data: " authority) }
        { print }' "$kubeconfig" > "$kubeconfig.covey"
    sync "$kubeconfig.covey" 2> /dev/null || sync
    mv -f "$kubeconfig.covey" "$kubeconfig"
    # Whom the kubelet lets in.
    if [ -f /etc/kubernetes/pki/ca.crt ]; then
        parameter authority | base64 -d > /etc/kubernetes/pki/ca.crt.covey
        chmod 0644 /etc/kubernetes/pki/ca.crt.covey
        mv -f /etc/kubernetes/pki/ca.crt.covey /etc/kubernetes/pki/ca.crt
    fi
    service start kubelet || give_up failed "the kubelet does not start: $(complaint)"
    rm -f "$job/told"
    report
fi

step kernel
mkdir -p "${module_file%/*}" "${sysctl_file%/*}"
printf 'overlay\nbr_netfilter\n' > "$module_file"
for module in overlay br_netfilter; do modprobe "$module" 9>&- || true; done
printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n' > "$sysctl_file"
chmod 0644 "$module_file" "$sysctl_file"
# Without the bridge module its settings are not there yet; preflight has asked for it.
sysctl -p "$sysctl_file" || true

# kubeadm and the kubelet look the node's name up again and again, for 10 s each time where no DNS answers. The kubelet
# takes no address of loopback for the node's.
step name
forget_name
if [ -w /etc/hosts ]; then
    if [ -n "$(tail -c 1 /etc/hosts)" ]; then echo >> /etc/hosts; fi
    printf '127.0.0.1 %s # covey\n' "$(parameter nodeName)" >> /etc/hosts || true
fi

# The kubelet is started with an address that the machine has to have, and the overlay, whose program runs on the kubelet,
# brings it later. Noted first, so that a reset finds it.
step address
wanted=$(parameter address)
take_address "$wanted" || give_up failed "the address of a join before this one cannot be taken off: $(complaint)"
if [ -n "$wanted" ]; then
    printf '%s\n' "$wanted" > "$given.new"
    sync "$given.new" 2> /dev/null || sync
    mv -f "$given.new" "$given"
    has_given "$wanted" || ip address add "$wanted/$(width "$wanted")" dev lo \
        || give_up failed "the machine cannot be given its address in the overlay, $wanted: $(complaint)"
fi

step programs
wanted=$(parameter programs)
if [ -n "$wanted" ]; then install_sent "$wanted"; fi

step containerd
wanted=$(parameter containerdConfig)
if [ -n "$wanted" ]; then
    mkdir -p /etc/containerd
    if [ "$(cat /etc/containerd/config.toml 2> /dev/null)" != "$wanted" ]; then
        printf '%s\n' "$wanted" > /etc/containerd/config.toml.new
        mv -f /etc/containerd/config.toml.new /etc/containerd/config.toml
    fi
fi
# Also with the machine's own configuration: it may be stopped, or not come back with a boot.
service start containerd || give_up failed "containerd does not start: $(complaint)"

step version
version=$(kubelet --version | cut -d ' ' -f 2)
[ "$version" = "v$(parameter version)" ] \
    || give_up failed "the kubelet is $version instead of v$(parameter version)"

# kubeadm starts it, and leaves it to others that it comes back with a boot. A reset has undone that.
step kubelet
service enable kubelet || give_up failed "the kubelet's service cannot be enabled: $(complaint)"

if [ -z "$found" ]; then
    step join
    trap 'rm -f "$config"' HUP INT TERM
    # Where the configuration says that kubeadm finds it.
    rm -rf "$run/patches"
    if [ -n "$(parameter kubelet)" ]; then
        mkdir -p "$run/patches"
        parameter kubelet > "$run/patches/kubeletconfiguration+merge.json"
    fi
    parameter config > "$config"
    if ! kubeadm join --config "$config" 9>&-; then
        rm -f "$config"
        said=$(complaint)
        # It refuses what its own half has left. There was no kubelet of anybody before it.
        limit=
        if has timeout; then limit='timeout 120'; fi
        $limit kubeadm reset --force 9>&- || true
        give_up failed "kubeadm join failed: $said"
    fi
fi
rm -f "$config" "$job/told"
rm -rf "$run/patches"

report
