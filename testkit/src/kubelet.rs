//! Plays the kubelet, the controllers of workloads and the load balancer: writes the status that
//! tenant namespaces would get in a real cluster.
//!
//! Invariant: it touches only status, and only in namespaces with the label
//! `covey.dev/tenant-cluster-uid`; it writes nothing where the status is already right.
