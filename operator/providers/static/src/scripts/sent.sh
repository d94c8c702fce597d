# Programs of a node that were sent: one archive, unpacked below $sent, with links from where shells look, and services.
sent=/opt/covey
archive=/var/lib/covey/programs.tar.gz
kubelet_unit=/etc/systemd/system/kubelet.service
kubelet_changes=/etc/systemd/system/kubelet.service.d/99-covey.conf
containerd_unit=/etc/systemd/system/containerd.service
sent_services="$kubelet_unit $kubelet_changes $containerd_unit /etc/init.d/kubelet /etc/init.d/containerd"
is_sent_service() { [ -f "$1" ] && head -n 2 "$1" | grep -qx '# covey'; }
sent_links() {
    for link in /usr/local/bin/* /opt/cni/bin/*; do
        if [ -L "$link" ]; then case "$(readlink "$link")" in "$sent"/*) echo "$link" ;; esac; fi
    done
}
