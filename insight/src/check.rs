//! Every check: its number and name, which never change, and which other checks it presupposes.
//!
//! Invariant: the order is that of causes, from the management cluster inwards, and a check presupposes only checks
//! that stand before it; so of two findings the one that explains the other comes first.

/// Makes the enum and its table.
macro_rules! checks {
    ($( #[doc = $about:literal] $name:ident = $number:literal $id:literal after [$($after:ident),*]; )+) => {
        /// One check.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Check {
            $(#[doc = $about] $name,)+
        }

        impl Check {
            /// All, in the order of causes.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Its number, as in documents: 26.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(Self::$name => $number,)+ }
            }

            /// Its name, as `--skip` takes it: `etcd`.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)+ }
            }

            /// What it asks, in one line.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Self::$name => $about,)+ }.trim()
            }

            /// Checks whose findings explain this one's.
            #[must_use]
            pub const fn after(self) -> &'static [Self] {
                match self { $(Self::$name => &[$(Self::$after),*],)+ }
            }
        }
    };
}

checks! {
    /// The kubeconfig can be used.
    Kubeconfig = 1 "kubeconfig" after [];
    /// The management cluster's API answers.
    ManagementReach = 2 "management-reach" after [Kubeconfig];
    /// The clock here is that of the management cluster.
    Clock = 3 "clock" after [ManagementReach];
    /// Everything that the checks need may be read.
    Rights = 4 "rights" after [ManagementReach];
    /// The management cluster is new enough.
    ManagementVersion = 5 "management-version" after [ManagementReach];
    /// The kinds of Covey are there and served.
    Definitions = 6 "definitions" after [ManagementReach];
    /// Pods of the operator are ready.
    OperatorPods = 7 "operator-pods" after [ManagementReach];
    /// One replica of the operator leads.
    OperatorLeads = 8 "operator-leads" after [OperatorPods];
    /// The API server can ask Covey's webhook.
    Webhook = 10 "webhook" after [OperatorPods, OperatorLeads];
    /// The policies that fence the operator in are in force.
    Policies = 11 "policies" after [ManagementReach];
    /// There is a StorageClass for volumes of etcd.
    StorageClass = 12 "storage-class" after [ManagementReach];
    /// The provider of machines is there.
    Virtualization = 13 "virtualization" after [ManagementReach];
    /// It is known which addresses workers must not reach.
    ReservedRanges = 14 "reserved-ranges" after [ManagementReach];
    /// BackupTargets can hold backups.
    BackupTargets = 43 "backup-targets" after [ManagementReach];
    /// Accounts at clouds let the operator in.
    CloudAccounts = 49 "cloud-accounts" after [ManagementReach];
    /// Nothing of machines that are gone is left in an account at a cloud, where it costs.
    Leaks = 51 "leaks" after [];
    /// Tenant clusters follow another version of the operator, wave by wave.
    Fleet = 50 "fleet" after [ManagementReach];
    /// The spec can be carried out.
    Spec = 16 "spec" after [];
    /// Nothing is paused.
    Paused = 17 "paused" after [];
    /// Who is to sleep sleeps, and who is to be awake is.
    Sleep = 53 "sleep" after [];
    /// No upgrade failed, was returned from, or is kept from beginning.
    Upgrade = 52 "upgrade" after [];
    /// There is room, and quota.
    Capacity = 32 "capacity" after [];
    /// The tenant namespace is there and the tenant cluster's own.
    TenantNamespace = 18 "tenant-namespace" after [];
    /// No authority or key is lost.
    Authorities = 25 "authorities" after [TenantNamespace];
    /// The control plane was let start.
    Starts = 15 "starts" after [OperatorLeads];
    /// No member of etcd is lost.
    LostMember = 44 "lost-member" after [TenantNamespace];
    /// Enough members of etcd serve.
    Etcd = 26 "etcd" after [LostMember, StorageClass, Capacity, TenantNamespace, Authorities, Starts];
    /// etcd takes writes.
    EtcdSpace = 27 "etcd-space" after [Etcd];
    /// What changes is in the backup soon after.
    Backup = 46 "backup" after [BackupTargets, TenantNamespace, Etcd];
    /// Snapshots that were asked for are in the backup.
    Snapshots = 47 "snapshots" after [Backup];
    /// What is to be restored can be had.
    Restores = 48 "restores" after [Backup];
    /// Pods of the control plane are ready.
    ControlPlanePods = 28 "control-plane-pods" after [Capacity, TenantNamespace, Authorities, Starts, Etcd, EtcdSpace];
    /// The endpoint has an address.
    EndpointAddress = 19 "endpoint-address" after [TenantNamespace, Starts];
    /// Certificates are issued and renewed.
    Certificates = 24 "certificates" after [TenantNamespace, Authorities];
    /// The tenant cluster's API answers.
    ApiReady = 22 "api-ready" after [
        Spec, Capacity, TenantNamespace, Authorities, Starts, Etcd, EtcdSpace, ControlPlanePods, EndpointAddress, Certificates
    ];
    /// Programs are let in by AccessGrants, and rights that ended are gone.
    Grants = 55 "grants" after [ApiReady];
    /// The operator reaches the published endpoint.
    EndpointReach = 20 "endpoint-reach" after [EndpointAddress, ApiReady];
    /// What answers at the endpoint is the tenant cluster.
    EndpointTls = 21 "endpoint-tls" after [EndpointAddress, ApiReady, EndpointReach];
    /// Kubeconfigs at hand are of the tenant cluster that there is.
    ApiAuth = 23 "api-auth" after [];
    /// No webhook of the tenant keeps its own nodes and pods from being written.
    TenantWebhooks = 31 "tenant-webhooks" after [ApiReady];
    /// The API server reaches nodes and pods.
    Konnectivity = 29 "konnectivity" after [ControlPlanePods, ApiReady];
    /// Addons work.
    Addons = 30 "addons" after [ControlPlanePods, ApiReady];
    /// The autoscaler can size its pools.
    Autoscaler = 40 "autoscaler" after [ControlPlanePods, ApiReady];
    /// Nodes and control plane go together by version.
    Skew = 37 "skew" after [];
    /// Nobody calls an API that a later version does not serve.
    RemovedApis = 42 "removed-apis" after [];
    /// Nodes have a network for pods.
    NodeNetwork = 35 "node-network" after [ApiReady, Addons];
    /// Names are resolved inside.
    Dns = 36 "dns" after [ApiReady, Addons, NodeNetwork];
    /// Services of type LoadBalancer have an address.
    LoadBalancers = 38 "load-balancers" after [ApiReady, Addons];
    /// Claims have volumes, and volumes come to their nodes and go.
    Volumes = 39 "volumes" after [ApiReady, Addons];
    /// Hosts can be used.
    Hosts = 45 "hosts" after [];
    /// No location of a pool is out while others have machines.
    Locations = 54 "locations" after [Virtualization, CloudAccounts, Capacity];
    /// Machines become nodes, and stay.
    Machines = 33 "machines" after [
        Virtualization, ReservedRanges, CloudAccounts, Locations, Spec, Capacity, TenantNamespace, Authorities,
        ControlPlanePods, ApiReady, TenantWebhooks, NodeNetwork
    ];
    /// Machines and nodes belong together, and no node waits for the cloud controller manager.
    Nodes = 34 "nodes" after [ApiReady, Addons, NodeNetwork, Machines];
    /// What is deleted goes.
    Deleting = 41 "deleting" after [OperatorLeads];
    /// The operator follows changes.
    OperatorMoves = 9 "operator-moves" after [
        OperatorPods, OperatorLeads, Spec, Paused, TenantNamespace, Authorities, Etcd, ControlPlanePods, ApiReady, Deleting
    ];
}

/// What a check has to look at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Target {
    /// The management cluster, and objects of Covey in it.
    Management,
    /// The endpoint of one tenant cluster, from where somebody asks.
    Endpoint,
    /// One tenant cluster inside.
    Inside,
}

impl Check {
    /// What it looks at, without which it is not made.
    #[must_use]
    pub const fn target(self) -> Target {
        match self {
            Self::EndpointTls => Target::Endpoint,
            Self::TenantWebhooks
            | Self::RemovedApis
            | Self::NodeNetwork
            | Self::Dns
            | Self::LoadBalancers
            | Self::Volumes
            | Self::Nodes => Target::Inside,
            _ => Target::Management,
        }
    }

    /// Whether it is made before an installation.
    #[must_use]
    pub const fn is_before(self) -> bool {
        matches!(
            self,
            Self::Kubeconfig
                | Self::ManagementReach
                | Self::Clock
                | Self::Rights
                | Self::ManagementVersion
                | Self::StorageClass
                | Self::Virtualization
                | Self::ReservedRanges
        )
    }

    /// The check of this name or number.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|check| check.id() == name || check.number().to_string() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_and_names_are_there_once_and_found() {
        let numbers: BTreeSet<_> = Check::ALL.iter().map(|c| c.number()).collect();
        let names: BTreeSet<_> = Check::ALL.iter().map(|c| c.id()).collect();
        assert_eq!(
            (numbers.len(), names.len()),
            (Check::ALL.len(), Check::ALL.len())
        );
        for check in Check::ALL {
            assert_eq!(Check::find(check.id()), Some(*check));
            assert_eq!(Check::find(&check.number().to_string()), Some(*check));
            assert!(check.about().ends_with('.'), "{check:?}");
        }
        assert_eq!(Check::find("nothing"), None);
    }

    #[test]
    fn a_check_presupposes_only_what_stands_before_it() {
        for check in Check::ALL {
            for before in check.after() {
                assert!(before < check, "{before:?} stands behind {check:?}");
            }
        }
    }
}
