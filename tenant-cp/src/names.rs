//! Names of what is in a tenant namespace and inside a tenant cluster, ports and directories.
//!
//! Invariant: the names are the same for every tenant cluster: the namespace tells them apart.

/// Deployment, Service, ServiceAccount and component label of the control plane.
pub const CONTROL_PLANE: &str = "control-plane";
/// EndpointSlice of the Service [`CONTROL_PLANE`] that leads to the activator while it sleeps.
pub const ACTIVATOR_SLICE: &str = "control-plane-activator";
/// Deployment, ServiceAccount and component label of the kube-controller-manager and the kube-scheduler.
pub const CONTROLLERS: &str = "controllers";
/// StatefulSet, ServiceAccount, Secret and component label of etcd.
pub const ETCD: &str = "etcd";
/// Deployment, Service, ServiceAccount, Secret, NetworkPolicy and component label of the etcd that has Events alone.
pub const ETCD_EVENTS: &str = "etcd-events";
/// Annotation of the Deployment [`ETCD_EVENTS`]: since when it had not been ready when kube-apiservers were last told to do
/// without it, RFC 3339, UTC.
pub const EVENTS_LOST: &str = "covey.dev/events-lost-at";
/// Component label of the Jobs that restore etcd in place, and of their pods.
pub const ETCD_RESTORE: &str = "etcd-restore";
/// Annotation of volumes and their claims: until when they are kept although nothing uses them, RFC 3339, UTC.
pub const KEEP_UNTIL: &str = "covey.dev/keep-until";
/// Annotation of the Secret of an authority's or a key's generation: nobody is to believe it any more. It stays, so that its number
/// is not used again, and that no copy of it, of a backup say, comes back in its place. Empty on keys of encryption at rest
/// that a Restore brought back.
pub const DROPPED: &str = "covey.dev/dropped";
/// Annotation of the Secret of a generation of service account keys, or of `client-ca`: until when it signed, RFC 3339, UTC;
/// empty where it signs again. Nobody could see that later, and its tokens, or kubelets' certificates, last from then on.
pub const SIGNED_UNTIL: &str = "covey.dev/signed-until";
/// Annotation of the Secret of a later generation of `ca`: since when machines are made that believe it, RFC 3339, UTC. Nobody
/// could see later what a node was told.
pub const BELIEVED_SINCE: &str = "covey.dev/believed-since";
/// Annotation of the Secret of a later generation of `ca` that was made because a key of before was stolen: since when machines
/// are made that believe nothing else, RFC 3339, UTC.
pub const BELIEVED_ALONE_SINCE: &str = "covey.dev/believed-alone-since";
/// Annotation of pods of the control plane: hash of whom everybody is to believe the kube-apiserver by, and who signs its
/// certificates, once that was turned.
pub const CLUSTER_CA_HASH: &str = "covey.dev/cluster-authority-hash";
/// Annotation of pods of the control plane: hash of the keys of encryption at rest, once they were turned.
pub const ENCRYPTION_HASH: &str = "covey.dev/encryption-keys-hash";
/// Annotation of pods of the control plane: hash of who may sign front proxies, and who does, once that was turned.
pub const FRONT_PROXY_HASH: &str = "covey.dev/front-proxy-authority-hash";
/// Annotation of pods of the control plane: hash of who may sign clients that are machinery, and who does, once that was
/// turned.
pub const CLIENT_CA_HASH: &str = "covey.dev/client-ca-authority-hash";
/// Annotation of pods of the control plane: hash of who may sign clients, once the authority of people was turned.
pub const CLIENTS_HASH: &str = "covey.dev/clients-authority-hash";
/// Headless Service of the etcd members, and the name that every peer certificate holds.
pub const ETCD_PEERS: &str = "etcd-peers";
/// Container and Secret of the kube-apiserver.
pub const API_SERVER: &str = "apiserver";
/// Container and Secret of the kube-controller-manager.
pub const CONTROLLER_MANAGER: &str = "controller-manager";
/// Container and Secret of the kube-scheduler.
pub const SCHEDULER: &str = "scheduler";
/// Container and Secret of konnectivity's server.
pub const KONNECTIVITY_SERVER: &str = "konnectivity-server";
/// Service through which konnectivity's agents reach its servers.
pub const KONNECTIVITY: &str = "konnectivity";
/// Key of the Secret `etcd` that says what the flag `--initial-cluster-state` is to be. It is read when
/// a container starts, so a change of it restarts nobody.
pub const INITIAL_CLUSTER_STATE: &str = "initial-cluster-state";
/// The same of the flag `--initial-cluster`.
pub const INITIAL_CLUSTER: &str = "initial-cluster";
/// The value of that flag in the template of etcd's pods: what the Secret says when the container starts.
pub const INITIAL_CLUSTER_OF_SECRET: &str = "$(INITIAL_CLUSTER)";
/// Key of the Secret `etcd` with the file that the start gate reads: which volume is whose.
pub const ETCD_IDENTITY: &str = "identity.json";
/// Init container of etcd's pods: it decides whether the member may start on its volume.
pub const ETCD_GATE: &str = "gate";
/// Where the gate finds its file, and nothing else of the Secret.
pub const ETCD_IDENTITY_DIR: &str = "/etc/covey/etcd-identity";
/// Secret with a client certificate for health checks of etcd (`etcdctl endpoint health`).
pub const ETCD_HEALTHCHECK_CLIENT: &str = "etcd-healthcheck-client";
/// Secret with the operator's client certificate.
pub const OPERATOR_CLIENT: &str = "operator-client";

/// Lease in kube-system inside a tenant cluster by which the operator proves that its API takes a write.
pub const OPERATOR_LEASE: &str = "covey-operator";
/// User of the operator inside a tenant cluster.
pub const OPERATOR_USER: &str = "covey-operator";
/// Group of the operator inside a tenant cluster.
pub const OPERATOR_GROUP: &str = "covey:operators";
/// Namespace of the Leases by which kubelets say that they are there.
pub const NODE_LEASES: &str = "kube-node-lease";

/// Group of every bootstrap token that Covey makes.
pub const BOOTSTRAPPERS: &str = "system:bootstrappers:kubeadm:default-node-token";
/// Group of all nodes inside a tenant cluster.
pub const NODES: &str = "system:nodes";
/// The signer of kubelets' client certificates.
pub const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of kubelets' serving certificates.
pub const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

/// Authority of the kube-apiserver itself: its serving certificate, and the client certificate that it
/// shows kubelets. Whoever is to believe the tenant's API believes it. Also its Secret.
pub const CA: &str = "ca";
/// Authority of kubelets' serving certificates, and its Secret.
pub const KUBELET_SERVING_CA: &str = "kubelet-serving-ca";
/// Authority of clients that are machinery (components, kubelets, the operator), and its Secret.
pub const CLIENT_CA: &str = "client-ca";
/// Authority of clients that are people, and its Secret.
pub const USERS_CA: &str = "users-ca";
/// Authority of the API aggregation's client certificate, and its Secret.
pub const FRONT_PROXY_CA: &str = "front-proxy-ca";
/// Authority of etcd, and its Secret.
pub const ETCD_CA: &str = "etcd-ca";
/// Authority of konnectivity's servers, and its Secret. It is written as any leaf is.
pub const KONNECTIVITY_AUTHORITY: &str = "konnectivity-ca";
/// Authorities that are the tenant cluster's identity; also the names of their Secrets.
pub const AUTHORITIES: [&str; 6] = [
    CA,
    KUBELET_SERVING_CA,
    CLIENT_CA,
    USERS_CA,
    FRONT_PROXY_CA,
    ETCD_CA,
];
/// Secret with the keys of service account tokens.
pub const SERVICE_ACCOUNT: &str = "service-account";
/// File beside `encryption.yaml`: which kinds were ever encrypted at rest, and of which some objects may not be yet. Programs
/// do not read it.
pub const ENCRYPTED_KINDS: &str = "encrypted-kinds";
/// Secret with the keys of encryption at rest.
pub const ENCRYPTION: &str = "encryption";

/// User of konnectivity's servers inside a tenant cluster, and the audience of their agents' tokens.
pub const KONNECTIVITY_USER: &str = "system:konnectivity-server";

/// Port of the kube-apiserver in its pod, and of the Service unless the user names another.
pub const API_PORT: i32 = 6443;
/// Port of konnectivity's server for agents, in its pod and of its Service.
pub const KONNECTIVITY_PORT: i32 = 8132;
/// Port of konnectivity's programs for administration, on loopback.
pub const KONNECTIVITY_ADMIN_PORT: i32 = 8133;
/// Port of konnectivity's programs for probes.
pub const KONNECTIVITY_HEALTH_PORT: i32 = 8134;
/// Port of a kubelet.
pub const KUBELET_PORT: i32 = 10250;
/// Port of etcd for clients.
pub const ETCD_CLIENT_PORT: i32 = 2379;
/// Port of etcd for its peers.
pub const ETCD_PEER_PORT: i32 = 2380;
/// Port of etcd for probes and metrics, without TLS.
pub const ETCD_METRICS_PORT: i32 = 2381;
/// Port of etcd for its JSON gateway, with mutual TLS as that for clients; the operator asks there.
pub const ETCD_HTTP_PORT: i32 = 2382;

/// Where each container mounts its Secret.
pub const SECRET_DIR: &str = "/etc/kubernetes";
/// Where the kube-apiserver finds the socket of konnectivity's server.
pub const KONNECTIVITY_DIR: &str = "/run/konnectivity";
/// File of the kube-apiserver: whom it sends events of the audit log.
pub const AUDIT_WEBHOOK: &str = "audit-webhook.yaml";
/// File of the kube-apiserver: who allows what, where webhooks do.
pub const AUTHORIZATION: &str = "authorization.yaml";
/// Where the kube-apiserver writes its audit log.
pub const AUDIT_DIR: &str = "/var/log/kubernetes";
/// Where etcd keeps its data.
pub const ETCD_DATA_DIR: &str = "/var/lib/etcd";

/// Pod, Service and certificate name of one etcd member.
#[must_use]
pub fn etcd_member(member: i32) -> String {
    format!("{ETCD}-{member}")
}

/// PersistentVolumeClaim of one etcd member, as the StatefulSet would call it.
#[must_use]
pub fn etcd_volume(member: i32) -> String {
    volume_of(&etcd_member(member))
}

/// Where the peers of a member of etcd reach it, by its number. Example: `https://etcd-0:2380`.
#[must_use]
pub fn etcd_peer_url(member: i32) -> String {
    format!("https://{}:{ETCD_PEER_PORT}", etcd_member(member))
}

/// The same for a member's name. Example: `data-etcd-0`.
#[must_use]
pub fn volume_of(member: &str) -> String {
    format!("data-{member}")
}
