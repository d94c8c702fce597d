# Unpacks what was sent and has the digest, and has it found and started.
install_sent() {
    found_digest=$(sha256sum "$archive" 2> /dev/null | cut -d ' ' -f 1)
    [ "$found_digest" = "$1" ] || give_up failed "the programs that were sent are not there any more, or were changed: they are sent again"
    place=$sent/programs
    if [ "$(cat "$place/digest" 2> /dev/null)" != "$1" ]; then
        rm -rf "$place" "$place.new"
        mkdir -p "$place.new"
        # Modes are those of the archive.
        gzip -dc "$archive" | tar -xpof - -C "$place.new" || give_up failed "the programs cannot be unpacked: $(complaint)"
        for program in containerd containerd-shim-runc-v2 kubeadm kubelet runc; do
            [ -f "$place.new/bin/$program" ] \
                || give_up failed "the archive of config.providers.static.programs has no bin/$program: make it anew"
        done
        printf '%s\n' "$1" > "$place.new/digest"
        chmod 0755 "$sent" "$place.new"
        sync
        mv "$place.new" "$place"
    fi
    mkdir -p /usr/local/bin
    for program in "$place"/bin/*; do
        link=/usr/local/bin/${program##*/}
        if [ -e "$link" ] || [ -L "$link" ]; then
            case "$(readlink "$link" || true)" in
                "$sent"/*) ;;
                *) give_up failed "$link is there already and would be found in place of what was sent: move it away" ;;
            esac
        fi
        ln -sfn "$program" "$link"
    done
    if [ -d "$place/cni" ]; then
        (umask 022 && mkdir -p /opt/cni/bin)
        # The machine's own stay.
        for plugin in "$place"/cni/*; do
            link=/opt/cni/bin/${plugin##*/}
            if [ ! -e "$link" ]; then ln -sfn "$plugin" "$link"; fi
        done
    fi
    if [ -f "$place/containerd/config.toml" ] && [ ! -e /etc/containerd/config.toml ]; then
        mkdir -p /etc/containerd
        cp "$place/containerd/config.toml" /etc/containerd/config.toml
    fi
    install_services
}
# A file of the service manager; what is there and is not Covey's is left.
put_service() {
    if [ -e "$1" ] && ! is_sent_service "$1"; then
        give_up failed "$1 is there already, and not by Covey, so that what was sent would not be started: remove it"
    fi
    (umask 022 && mkdir -p "${1%/*}")
    cat > "$1.covey"
    chmod "$2" "$1.covey"
    mv -f "$1.covey" "$1"
}
# What kubeadm's own packages say: cmd/kubepkg/templates/latest of kubernetes/release.
kubelet_arguments='--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml'
install_services() {
    if [ -d /run/systemd/system ] && has systemctl; then
        put_service "$kubelet_unit" 0644 << 'END'
[Unit]
# covey
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target containerd.service

[Service]
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
END
        # A package's own changes come before it by their names, and say where its kubelet is.
        put_service "$kubelet_changes" 0644 << END
[Service]
# covey
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/local/bin/kubelet $kubelet_arguments \$KUBELET_KUBEADM_ARGS \$KUBELET_EXTRA_ARGS
END
        put_service "$containerd_unit" 0644 << 'END'
[Unit]
# covey
Description=containerd container runtime
After=network.target local-fs.target

[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
END
        systemctl daemon-reload || give_up failed "systemd does not take the services of what was sent: $(complaint)"
        return
    fi
    put_service /etc/init.d/containerd 0755 << 'END'
#!/sbin/openrc-run
# covey
supervisor=supervise-daemon
command=/usr/local/bin/containerd
output_log=/var/log/containerd.log
error_log=/var/log/containerd.log
depend() { after net sysctl modules; }
# kubeadm asks it as soon as it is started.
start_post() { ewaitfile 20 /run/containerd/containerd.sock; }
END
    put_service /etc/init.d/kubelet 0755 << END
#!/sbin/openrc-run
# covey
supervisor=supervise-daemon
command=/usr/local/bin/kubelet
respawn_delay=2
respawn_max=0
output_log=/var/log/kubelet.log
error_log=/var/log/kubelet.log
depend() {
    after net
    need containerd
}
# Variables are written by kubeadm and by people, in this order.
start_pre() {
    for file in /var/lib/kubelet/kubeadm-flags.env /etc/default/kubelet; do
        if [ -r "\$file" ]; then . "\$file"; fi
    done
    command_args="$kubelet_arguments \${KUBELET_KUBEADM_ARGS:-} \${KUBELET_EXTRA_ARGS:-}"
}
END
}
