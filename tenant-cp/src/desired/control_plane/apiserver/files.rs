//! Configuration files of the kube-apiserver that lie next to its certificates.
//!
//! Invariant: constants, the same for every tenant cluster; each is valid in every supported minor.

/// Audit policy: who did what at `Metadata` level, never bodies (they hold secrets), without the
/// noise of the components among themselves (audit.k8s.io/v1).
pub(crate) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ['system:apiserver']
- level: None
  nonResourceURLs: ['/livez*', '/readyz*', '/healthz*', '/version', '/openapi/*']
- level: None
  resources:
  - group: ''
    resources: [events]
  - group: events.k8s.io
    resources: [events]
- level: None
  userGroups: ['system:nodes']
  verbs: [get, list, watch]
  resources:
  - group: ''
    resources: [nodes, nodes/status, pods, pods/status, services, endpoints, configmaps]
  - group: discovery.k8s.io
  - group: node.k8s.io
  - group: storage.k8s.io
- level: None
  users: ['system:kube-controller-manager', 'system:kube-scheduler']
  verbs: [get, list, watch]
- level: None
  userGroups: ['system:nodes', 'system:serviceaccounts:kube-system']
  verbs: [get, list, watch, update, patch]
  resources:
  - group: coordination.k8s.io
    resources: [leases]
- level: None
  users: ['system:kube-controller-manager', 'system:kube-scheduler']
  verbs: [update, patch]
  resources:
  - group: coordination.k8s.io
    resources: [leases]
- level: Metadata
";

/// Anonymous requests for health and for what `kubeadm join` reads first, and for nothing else
/// (apiserver.config.k8s.io/v1, KEP-4633).
pub(crate) const AUTHENTICATION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
  - path: /api/v1/namespaces/kube-public/configmaps/cluster-info
";

/// What leaves the kube-apiserver for nodes, pods and webhooks goes through konnectivity; what is
/// not named here (etcd) goes straight. `controlplane` is what the server calls webhooks that are
/// named by URL: such a URL is the tenant's word, so it is dialled from the tenant's network, never
/// from the management cluster's (apiserver `pkg/server/egressselector`, KEP-1281).
pub(crate) const EGRESS: &str = "\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: GRPC
    transport:
      uds:
        udsName: /run/konnectivity/konnectivity.sock
- name: controlplane
  connection:
    proxyProtocol: GRPC
    transport:
      uds:
        udsName: /run/konnectivity/konnectivity.sock
";

/// Admission plugins' settings: a flood of Events in one namespace cannot fill etcd.
pub(crate) const ADMISSION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - type: Namespace
      qps: 50
      burst: 200
      cacheSize: 1000
";
