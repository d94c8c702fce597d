//! Whether a tenant cluster may be brought up with what another one was, and what of that is removed before it serves. No
//! I/O, no clock, no chance.
//!
//! A TenantCluster says itself, from when it is made, whether it is a copy (`spec.etcd.copyOf`), so what becomes of the one
//! of then meanwhile changes nothing.
//! Laws (`tests`): authorities and service account keys are taken over only of what is proven to be gone, and never by a
//! copy; one set of addresses is never served by two tenant clusters unless somebody says so; what is encrypted is never
//! served without its keys; what is not known is waited for, and refuses nothing.

use std::collections::BTreeSet;

use api::tenant_cluster::NetworkStatus;

/// The tenant cluster whose backup is read.
///
/// There is none that is held at no pods: a TenantCluster that is there has pods or may get some at any time, so nothing of
/// it is taken over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// Nobody can say now.
    Unknown,
    /// There is no TenantCluster of that UID any more.
    Gone,
    /// It is there.
    Lives,
}

/// Everything that it is decided by.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The one whose backup it is.
    pub source: Source,
    /// Address ranges that its Services and pods have; none where nobody knows them.
    pub its_network: Option<NetworkStatus>,
    /// Those of the tenant cluster that it becomes.
    pub network: NetworkStatus,
    /// Minor version of Kubernetes that wrote the moment; none where nobody knows it.
    pub its_minor: Option<u32>,
    /// The one that will read it.
    pub minor: u32,
    /// Whether the keys are there that its Secrets are encrypted with; none where that is not known.
    pub has_keys: Option<bool>,
    /// Names of the KMSs that what it has in etcd may be encrypted by.
    pub kms: BTreeSet<String>,
    /// Those of the operator's configuration.
    pub known_kms: BTreeSet<String>,
    /// What the tenant cluster that it becomes was made for.
    pub way: Way,
}

/// What it becomes of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// The only one that there is.
    Move,
    /// Another one, with authorities and service account keys of its own.
    Copy,
}

/// Whether it goes ahead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Like this.
    Go(Way),
    /// Once this is known.
    Waits(&'static str),
    /// Not before people change something.
    Refused(String),
}

/// Decides.
#[must_use]
pub fn decide(facts: &Facts) -> Verdict {
    match (facts.way, facts.source) {
        // A copy takes nothing away from the one of then.
        (Way::Copy, _) | (Way::Move, Source::Gone) => {}
        (Way::Move, Source::Unknown) => {
            return Verdict::Waits("whether the tenant cluster of then is there");
        }
        (Way::Move, Source::Lives) => {
            return Verdict::Refused(
                "the tenant cluster of then is there, and two would serve the same addresses, with the same authorities: \
                 delete it, restore it in place, or make a TenantCluster with spec.etcd.copyOf to have a copy beside it"
                    .to_owned(),
            );
        }
    }
    let Some(its) = &facts.its_network else {
        return Verdict::Waits("which addresses the tenant cluster of then had");
    };
    // Services hold addresses in etcd, and kube-apiserver repairs none that lies outside of its range.
    let differing = [
        ("podCIDR", &its.pod_cidr, &facts.network.pod_cidr),
        (
            "serviceCIDR",
            &its.service_cidr,
            &facts.network.service_cidr,
        ),
        ("dnsDomain", &its.dns_domain, &facts.network.dns_domain),
    ];
    if let Some((what, had, has)) = differing.iter().find(|(_, had, has)| had != has) {
        return Verdict::Refused(format!(
            "{what} was {had} and is {has}: make the TenantCluster with what it was"
        ));
    }
    let Some(its_minor) = facts.its_minor else {
        return Verdict::Waits("which version of Kubernetes wrote it");
    };
    // What a newer one stored an older one may not read; a newer one reads what the minor before it stored.
    if facts.minor < its_minor || facts.minor > its_minor + 1 {
        return Verdict::Refused(format!(
            "1.{its_minor} wrote it and 1.{} would read it: make the TenantCluster with 1.{its_minor} or 1.{}",
            facts.minor,
            its_minor + 1
        ));
    }
    if let Some(why) = without_kms(facts) {
        return Verdict::Refused(why);
    }
    match facts.has_keys {
        None => Verdict::Waits("whether its encryption keys are there"),
        Some(false) => Verdict::Refused(
            "its Secrets are encrypted, and nobody has the key: bring its Secret `encryption` back, which was in its \
             tenant namespace"
                .to_owned(),
        ),
        Some(true) => Verdict::Go(facts.way),
    }
}

/// Why nobody would read what a KMS encrypted; none where that is not so.
fn without_kms(facts: &Facts) -> Option<String> {
    if let (Way::Copy, Some(kms)) = (facts.way, facts.kms.first()) {
        return Some(format!(
            "its Secrets may be encrypted by the KMS {kms}, which nobody asks before a copy serves: one that has, or had, \
             spec.encryption.kms cannot be copied; restore it in place, or delete it and bring it up from its backup"
        ));
    }
    let lacking = facts.kms.difference(&facts.known_kms).next()?;
    Some(lacks_kms(lacking))
}

/// That a KMS is gone without which nobody reads what is restored, with what to do.
#[must_use]
pub fn lacks_kms(name: &str) -> String {
    format!(
        "its objects may be encrypted by the KMS {name}, and the operator's configuration has none of that name \
         (encryption.kms): nobody can read them without; bring it back, with the keys that it had"
    )
}

/// Keys of etcd that are removed before a kube-apiserver serves it, from and before which: what names machines, processes
/// and requests of the tenant cluster of then. Pods that were on its nodes go with them (pod garbage collection).
pub const REMOVED: [(&str, &str); 8] = [
    ("/registry/minions/", "/registry/minions0"),
    ("/registry/csinodes/", "/registry/csinodes0"),
    (
        "/registry/volumeattachments/",
        "/registry/volumeattachments0",
    ),
    ("/registry/leases/", "/registry/leases0"),
    ("/registry/masterleases/", "/registry/masterleases0"),
    (
        "/registry/certificatesigningrequests/",
        "/registry/certificatesigningrequests0",
    ),
    (
        "/registry/secrets/kube-system/bootstrap-token-",
        "/registry/secrets/kube-system/bootstrap-token.",
    ),
    (
        "/registry/endpointslices/default/kubernetes",
        "/registry/endpointslices/default/kubernetes\0",
    ),
];

/// What goes from the etcd of a copy besides [`REMOVED`]: what names volumes and snapshots of the tenant cluster of then,
/// which drivers in the copy would attach, mount and delete; and whose clients and servers it believed. The first two
/// ConfigMaps are made anew by kube-apiservers, which would add their authorities to those that are there
/// (`k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust`), and by us.
pub const REMOVED_FROM_COPIES: [(&str, &str); 6] = [
    (
        "/registry/persistentvolumes/",
        "/registry/persistentvolumes0",
    ),
    (
        "/registry/csistoragecapacities/",
        "/registry/csistoragecapacities0",
    ),
    (
        "/registry/snapshot.storage.k8s.io/volumesnapshotcontents/",
        "/registry/snapshot.storage.k8s.io/volumesnapshotcontents0",
    ),
    (
        "/registry/groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents/",
        "/registry/groupsnapshot.storage.k8s.io/volumegroupsnapshotcontents0",
    ),
    (
        "/registry/configmaps/kube-system/extension-apiserver-authentication",
        "/registry/configmaps/kube-system/extension-apiserver-authentication\0",
    ),
    (
        "/registry/configmaps/kube-public/cluster-info",
        "/registry/configmaps/kube-public/cluster-info\0",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> NetworkStatus {
        NetworkStatus {
            pod_cidr: "10.128.0.0/18".to_owned(),
            service_cidr: "100.64.0.0/20".to_owned(),
            dns_domain: "cluster.local".to_owned(),
        }
    }

    fn facts() -> Facts {
        Facts {
            source: Source::Gone,
            its_network: Some(network()),
            network: network(),
            its_minor: Some(35),
            minor: 35,
            has_keys: Some(true),
            kms: BTreeSet::new(),
            known_kms: BTreeSet::new(),
            way: Way::Move,
        }
    }

    fn with(change: impl Fn(&mut Facts)) -> Verdict {
        let mut facts = facts();
        change(&mut facts);
        decide(&facts)
    }

    #[test]
    fn only_what_is_gone_moves_and_what_was_made_to_be_a_copy_is_one_whatever_becomes_of_the_other()
    {
        let of = |way, source| with(|facts| (facts.way, facts.source) = (way, source));
        assert_eq!(of(Way::Move, Source::Gone), Verdict::Go(Way::Move));
        assert!(matches!(
            of(Way::Move, Source::Lives),
            Verdict::Refused(why) if why.contains("spec.etcd.copyOf")
        ));
        for source in [Source::Unknown, Source::Gone, Source::Lives] {
            assert_eq!(of(Way::Copy, source), Verdict::Go(Way::Copy));
        }
    }

    #[test]
    fn what_is_not_known_is_waited_for_and_refuses_nothing() {
        for unknown in [
            |facts: &mut Facts| facts.source = Source::Unknown,
            |facts: &mut Facts| facts.its_network = None,
            |facts: &mut Facts| facts.its_minor = None,
            |facts: &mut Facts| facts.has_keys = None,
        ] {
            assert!(matches!(with(unknown), Verdict::Waits(_)));
        }
    }

    #[test]
    fn what_a_kms_encrypted_moves_to_where_that_kms_is_and_is_never_copied() {
        let vault = || BTreeSet::from(["vault".to_owned()]);
        let needs = |known: bool, way| {
            with(|facts| {
                facts.kms = vault();
                facts.way = way;
                if known {
                    facts.known_kms = vault();
                }
            })
        };
        assert_eq!(needs(true, Way::Move), Verdict::Go(Way::Move));
        let lacking = Verdict::Refused(lacks_kms("vault"));
        assert_eq!(needs(false, Way::Move), lacking);
        for known in [true, false] {
            assert!(matches!(
                needs(known, Way::Copy),
                Verdict::Refused(why) if why.contains("spec.encryption.kms")
            ));
        }
    }

    #[test]
    fn other_addresses_versions_that_cannot_read_it_and_missing_keys_are_refused_with_what_to_do() {
        let refused = |change: fn(&mut Facts)| match with(change) {
            Verdict::Refused(why) => why,
            other => panic!("{other:?}"),
        };
        let other = refused(|facts| facts.network.service_cidr = "100.64.16.0/20".to_owned());
        assert_eq!(
            other,
            "serviceCIDR was 100.64.0.0/20 and is 100.64.16.0/20: make the TenantCluster with what it was"
        );
        assert!(refused(|facts| facts.minor = 34).contains("1.35 or 1.36"));
        assert!(refused(|facts| facts.minor = 37).contains("1.35 or 1.36"));
        assert_eq!(with(|facts| facts.minor = 36), Verdict::Go(Way::Move));
        assert!(refused(|facts| facts.has_keys = Some(false)).contains("encryption"));
    }

    #[test]
    fn what_is_removed_has_all_of_its_prefix_and_nothing_beside_it() {
        for (from, before) in REMOVED.into_iter().chain(REMOVED_FROM_COPIES) {
            assert!(from < before);
            for other in ["", "x", "~", "default/web"] {
                let key = format!("{from}{other}");
                let is_alone = before.ends_with('\0');
                let is_in = *key >= *from && *key < *before;
                assert_eq!(is_in, !is_alone || other.is_empty(), "{key}");
            }
        }
        for stays in [
            "/registry/secrets/kube-system/bootstrap",
            "/registry/secrets/kube-system/bootstrap-tokens",
            "/registry/endpointslices/default/kubernetes-ingress",
            "/registry/minion",
            "/registry/pods/default/web",
            "/registry/persistentvolumeclaims/default/data",
            "/registry/configmaps/kube-system/extension-apiserver-authentication-2",
            "/registry/configmaps/kube-public/cluster-information",
            "/registry/snapshot.storage.k8s.io/volumesnapshots/default/a",
        ] {
            let is_in = REMOVED
                .iter()
                .chain(&REMOVED_FROM_COPIES)
                .any(|(from, before)| stays >= *from && stays < *before);
            assert!(!is_in, "{stays}");
        }
    }
}
