# Makes the machine a node. Each step looks first whether it is done.
work "$1"
exec >> "$job/log" 2>&1
config=$run/join.yaml

step owner
[ "$(field "$folder/owner.json" machine)" = "$(parameter machine)" ] \
    || give_up foreign "owner.json names another Machine: $(field "$folder/owner.json" machine)"
found=$(kubelet_ca)
if [ -n "$found" ] && [ "$found" != "$(parameter ca)" ]; then
    give_up foreign "its kubelet belongs to another cluster: the digest of its authority is $found"
fi

step kernel
mkdir -p "${module_file%/*}" "${sysctl_file%/*}"
printf 'overlay\nbr_netfilter\n' > "$module_file"
for module in overlay br_netfilter; do modprobe "$module" 9>&- || true; done
printf 'net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n' > "$sysctl_file"
chmod 0644 "$module_file" "$sysctl_file"
# Without the bridge module its settings are not there yet; preflight has asked for it.
sysctl -p "$sysctl_file" || true

step files
if [ -n "$(parameter files)" ]; then
    parameter files > "$job/files"
    sha256sum -c "$job/files" || give_up failed "files are missing or have another digest: $(complaint)"
fi

step containerd
wanted=$(parameter containerdConfig)
if [ -n "$wanted" ]; then
    mkdir -p /etc/containerd
    if [ "$(cat /etc/containerd/config.toml 2> /dev/null)" != "$wanted" ]; then
        printf '%s\n' "$wanted" > /etc/containerd/config.toml.new
        mv -f /etc/containerd/config.toml.new /etc/containerd/config.toml
    fi
    service start containerd || give_up failed "containerd does not start: $(complaint)"
fi

step version
version=$(kubelet --version | cut -d ' ' -f 2)
[ "$version" = "v$(parameter version)" ] \
    || give_up failed "the kubelet is $version instead of v$(parameter version)"

if [ -z "$found" ]; then
    step join
    trap 'rm -f "$config"' HUP INT TERM
    parameter config > "$config"
    if ! kubeadm join --config "$config" 9>&-; then
        rm -f "$config"
        give_up failed "kubeadm join failed: $(complaint)"
    fi
fi
rm -f "$config" "$job/told"

step report
node_name=$(parameter nodeName)
found=$(kubelet_ca)
[ "$found" = "$(parameter ca)" ] || give_up failed "the kubelet believes another authority after the join: $found"
rm -f "$job/log" "$job/script"
trap - EXIT
note report "done"
