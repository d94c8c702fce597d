# What a worker's boot does next, in the order of its units: names and files of the user data (worker-init.service),
# and its commands once there are network and containerd (worker-run.service).
/usr/local/sbin/worker-init
if [ -e /run/worker-init/runcmd ]; then
    sh /run/worker-init/runcmd
fi
