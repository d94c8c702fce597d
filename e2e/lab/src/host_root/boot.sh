# What an init does before services: the folders in which OpenRC remembers what runs, and that it looks after this
# machine. Debian's package makes host keys of its own, the same for all hosts.
cd /etc/ssh && rm -f ssh_host_rsa_key* ssh_host_ecdsa_key*
mkdir -p /run/lock /run/openrc /run/sshd
for folder in daemons exclusive failed hotplugged inactive options scheduled started starting stopping tmp wasinactive; do
    mkdir -p "/run/openrc/$folder"
done
echo default > /run/openrc/softlevel
# As packages do it: the runtime is started, and the kubelet comes with the next boot.
if [ -e /etc/init.d/containerd ]; then
    {
        rc-update add containerd default
        rc-update add kubelet default
        rc-service containerd start
    } > /var/log/boot.log 2>&1
fi
