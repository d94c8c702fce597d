# What the machine is. Changes nothing, but for when its owner looked at it last.
first_line() { { head -n 1 "$1" | cut -c 1-128; } 2> /dev/null || true; }
of_release() { { sed -n "s/^$1=//p" /etc/os-release | head -n 1 | tr -d "\"'"; } 2> /dev/null || true; }
memory() { awk -v name="$1:" '$1 == name { print int($2 / 1024) }' /proc/meminfo; }
module() { [ -e "$2" ] || grep -qw "$1" /proc/filesystems || { has modprobe && modprobe -n -q "$1"; }; }
tasks() {
    count=0
    for namespace in /run/containerd/io.containerd.runtime.v2.task/*; do
        [ -d "$namespace" ] || continue
        case "${namespace##*/}" in k8s.io) ours=true ;; *) ours=false ;; esac
        [ "$ours" = "$1" ] || continue
        for task in "$namespace"/*; do if [ -d "$task" ]; then count=$((count + 1)); fi; done
    done
    echo "$count"
}
certificate=
for file in /var/lib/kubelet/pki/kubelet-client-current.pem; do
    [ -r "$file" ] || continue
    certificate=$(awk '/-----END CERT/ { exit } inside { printf "%s", $0 } /-----BEGIN CERT/ { inside = 1 }' "$file" | cut -c 1-8192)
done
missing=
for tool in awk base64 cut find flock grep head ip mount mv readlink sed setsid sha256sum sort tail tr umount; do
    has "$tool" || missing="$missing $tool"
done
# Those of a node, which may be sent; and those that unpack them.
missing_programs=
for program in containerd kubeadm kubelet; do
    has "$program" || missing_programs="$missing_programs $program"
done
missing_unpackers=
for tool in gzip tar wc; do
    has "$tool" || missing_unpackers="$missing_unpackers $tool"
done
has iptables || has nft || missing="$missing iptables"
has systemctl || has rc-service || missing="$missing systemd"
runtimes=
for name in kubelet containerd dockerd crio k3s k0s; do
    if runs "$name"; then runtimes="$runtimes $name"; fi
done
ports=
for port in 10250:280A 10255:280F 10256:2810; do
    if listens "${port#*:}"; then ports="$ports ${port%:*}"; fi
done
# Of every interface; "10.0.0.4/24" or "10.0.0.1 peer 10.0.0.2/32".
addresses() { { ip -o addr show 2> /dev/null || true; } | awk '$3 == "inet" || $3 == "inet6" { sub(/\/.*/, "", $4); print $4 }' | head -n 64 | tr '\n' ' '; }
# Fingerprints of the authority's certificates, eight at most.
authorities() {
    kubelet_authority | base64 -d 2> /dev/null \
        | awk '/-----BEGIN CERT/ { body = ""; inside = 1; next } /-----END CERT/ { if (inside && n++ < 8) print body; inside = 0 } inside { body = body $0 }' \
        | while IFS= read -r body; do
            printf '%s' "$body" | tr -d '\r' | base64 -d 2> /dev/null | sha256sum | cut -d ' ' -f 1
        done | tr '\n' ' '
}
owner=/var/lib/covey/owner.json
looked=/var/lib/covey/looked
# Who has the machine says so at each look: whoever would take it over sees that somebody is there.
caller=$(parameter machine)
if [ -n "$caller" ] && [ "$(field "$owner" machine)" = "$caller" ]; then
    { date +%s > "$looked"; } 2> /dev/null || true
fi
# Seconds since then; empty where nobody knows.
since_look() {
    last=
    { IFS= read -r last < "$looked"; } 2> /dev/null || true
    case "$last" in '' | *[!0-9]*) return 0 ;; esac
    age=$(($(date +%s) - last))
    if [ "$age" -lt 0 ]; then age=0; fi
    echo "$age"
}
answer \
    machineID "$(first_line /etc/machine-id)" \
    arch "$(uname -m)" \
    cpus "$(grep -c '^processor' /proc/cpuinfo || true)" \
    memoryMiB "$(memory MemTotal)" \
    swapMiB "$(memory SwapTotal)" \
    os "$(of_release ID) $(of_release VERSION_ID)" \
    kernel "$(uname -r)" \
    cgroup2 "$(true_if test -f /sys/fs/cgroup/cgroup.controllers)" \
    tun "$(true_if test -c /dev/net/tun)" \
    wireguard "$(true_if module wireguard /sys/module/wireguard)" \
    overlay "$(true_if module overlay /sys/module/overlay)" \
    bridgeFilter "$(true_if module br_netfilter /proc/sys/net/bridge/bridge-nf-call-iptables)" \
    clock "$(date +%s)" \
    diskFreeMiB "$(df -Pk /var/lib | awk 'END { print int($4 / 1024) }')" \
    writable "$(true_if test -w /var/lib)" \
    runIsMemory "$(awk '$2 == "/run" { type = $3 } END { if (type == "tmpfs" || type == "ramfs") print "true"; else print "false" }' /proc/mounts)" \
    missing "$missing" \
    missingPrograms "$missing_programs" \
    missingUnpackers "$missing_unpackers" \
    processes "$runtimes" \
    ports "$ports" \
    addresses "$(addresses)" \
    tasks "$(tasks true)" \
    foreignTasks "$(tasks false)" \
    kubeletVersion "$(if has kubelet; then { kubelet --version 2> /dev/null || true; } | sed -n 's/^Kubernetes v//p' | head -n 1; fi)" \
    kubeletConfigured "$(true_if test -f /etc/kubernetes/kubelet.conf)" \
    kubeletCA "$(kubelet_ca)" \
    kubeletAuthorities "$(authorities)" \
    kubeletCertificate "$certificate" \
    systemd "$(true_if test -d /run/systemd/system)" \
    owned "$(true_if test -e "$owner")" \
    ownerInstallation "$(field "$owner" installation)" \
    ownerTenantCluster "$(field "$owner" tenantCluster)" \
    ownerMachine "$(field "$owner" machine)" \
    ownerLooked "$(since_look)"
