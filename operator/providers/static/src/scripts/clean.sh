# Proves that nothing of a node is left, or says what is. Changes nothing.
traces=
trace() { traces="$traces${traces:+;}$1"; }
for name in kubelet kube-proxy flanneld link-node; do
    if runs "$name"; then trace "process $name"; fi
done
for folder in $folders; do
    below=$(mounts_below "$folder" | head -n 1)
    if [ -n "$below" ]; then trace "mount $below"; fi
    if [ -d "$folder" ] && [ -n "$(ls -A "$folder" 2> /dev/null)" ]; then trace "folder $folder"; fi
done
for link in $(links); do trace "link $link"; done
tables=$(tables | tr '\n' ',')
if [ -n "$tables" ]; then trace "table ${tables%,}"; fi
chain=$(chains | head -n 1)
if [ -n "$chain" ]; then trace "chain $chain"; fi
if listens 280A; then trace "port 10250"; fi
for task in /run/containerd/io.containerd.runtime.v2.task/k8s.io/*; do
    if [ -d "$task" ]; then
        trace "container ${task##*/}"
        break
    fi
done
for file in /etc/modules-load.d/covey.conf /etc/sysctl.d/90-covey.conf /var/lib/covey/owner.json /var/lib/covey/address /run/covey/join.yaml /run/covey/join-*/told /run/covey/join-*/told.new; do
    if [ -e "$file" ]; then trace "file $file"; fi
done
for file in $sent_services; do
    if is_sent_service "$file"; then trace "file $file"; fi
done
link=$(sent_links | head -n 1)
if [ -n "$link" ]; then trace "file $link"; fi
if grep -qs ' # covey$' /etc/hosts; then trace "line # covey of /etc/hosts"; fi
if [ -z "$traces" ]; then answer result clean; else answer result traces traces "$traces"; fi
