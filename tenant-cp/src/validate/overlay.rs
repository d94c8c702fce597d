//! Validation of `spec.addons.overlay`.
//!
//! Invariant: what is let through meets no range of the tenant cluster, so that each address of a node, a pod and a
//! Service has one way.

use api::tenant_cluster::CniType;
use api::{Reason, TenantCluster};
use ipnet::IpNet;

use crate::network::ranges::{self, Use, overlap};
use crate::problem::Problem;
use crate::settings::Settings;

const ENABLED: &str = "spec.addons.overlay.enabled";

pub(super) fn check(tc: &TenantCluster, settings: &Settings, problems: &mut Vec<Problem>) {
    let addons = &tc.spec.addons;
    let overlay = &addons.overlay;
    if overlay.enabled && addons.cni.type_ != CniType::Flannel {
        problems.push(Problem::new(
            ENABLED,
            Reason::OverlayNeedsFlannel,
            "the overlay carries flannel's packets and knows no other network plugin: set \
             spec.addons.cni.type to flannel, or enabled to false",
        ));
    }
    let Some(text) = overlay.cidr.as_deref() else {
        if overlay.enabled {
            problems.push(Problem::new(
                Use::Overlay.field(),
                Reason::CIDRMalformed,
                "the overlay has no addresses: set cidr to a range that nothing at the nodes' sites \
                 uses, such as 198.18.0.0/16",
            ));
        }
        return;
    };
    let range = match ranges::parse(text, Use::Overlay, &settings.network) {
        Ok(range) => range,
        Err(problem) => {
            problems.push(problem);
            return;
        }
    };
    for (use_, other) in own(tc) {
        if overlap(&range, &other) {
            problems.push(Problem::new(
                Use::Overlay.field(),
                Reason::CIDROverlap,
                format!(
                    "{range} overlaps {other}, which is {} of the same tenant cluster: choose a \
                     range of its own, such as one of 198.18.0.0/15",
                    use_.name()
                ),
            ));
        }
    }
}

/// The management cluster's ranges: nodes reach its load balancers there, and would find them in the tunnels.
/// Asked on admission alone, because that cluster grows.
pub(super) fn reserved(tc: &TenantCluster, settings: &Settings) -> Option<Problem> {
    let text = tc.spec.addons.overlay.cidr.as_deref()?;
    let range = ranges::parse(text, Use::Overlay, &settings.network).ok()?;
    let mut reserved = settings.network.reserved.iter();
    let met = reserved.find(|net| overlap(net, &range))?;
    Some(Problem::new(
        Use::Overlay.field(),
        Reason::CIDRReserved,
        format!(
            "{range} overlaps {met}, which belongs to the management cluster: choose another range, \
             such as one of 198.18.0.0/15"
        ),
    ))
}

/// The tenant cluster's ranges: those in force, else those that it asks for.
fn own(tc: &TenantCluster) -> Vec<(Use, IpNet)> {
    let spec = &tc.spec.network;
    let held = tc.status.as_ref().and_then(|s| s.network.as_ref());
    let pods = held.map(|held| &held.pod_cidr).or(spec.pod_cidr.as_ref());
    let services = held.map(|held| &held.service_cidr);
    let services = services.or(spec.service_cidr.as_ref());
    let range = |(use_, text): (Use, Option<&String>)| Some((use_, text?.parse().ok()?));
    let all = [(Use::Pods, pods), (Use::Services, services)];
    all.into_iter().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(spec: &Value) -> TenantCluster {
        let mut object = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "namespace": "team-a" },
            "spec": { "version": "1.35.4" },
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn with(overlay: &Value) -> TenantCluster {
        cluster(&json!({ "addons": { "overlay": overlay } }))
    }

    fn said(tc: &TenantCluster) -> Vec<(String, Reason)> {
        let mut problems = Vec::new();
        check(tc, &Settings::default(), &mut problems);
        let short = |problem: Problem| (problem.field, problem.reason);
        problems.into_iter().map(short).collect()
    }

    #[test]
    fn overlay_that_is_off_or_has_a_range_of_its_own_is_let_in() {
        for overlay in [
            json!({}),
            json!({ "enabled": false }),
            json!({ "enabled": false, "cidr": "198.18.0.0/16" }),
            json!({ "enabled": true, "cidr": "198.18.0.0/16" }),
            json!({ "enabled": true, "cidr": "10.0.0.0/28" }),
        ] {
            assert_eq!(said(&with(&overlay)), [], "{overlay}");
        }
    }

    #[test]
    fn range_that_nobody_could_use_is_refused_at_its_field() {
        let field = "spec.addons.overlay.cidr";
        for (cidr, reason) in [
            (None, Reason::CIDRMalformed),
            (Some("nonsense"), Reason::CIDRMalformed),
            (Some("198.18.0.1/16"), Reason::CIDRHostBits),
            (Some("127.0.0.0/16"), Reason::CIDRSpecial),
            (Some("198.18.0.0/29"), Reason::CIDRSize),
            (Some("10.0.0.0/7"), Reason::CIDRSize),
            (Some("fd00:1::/64"), Reason::CIDRFamily),
            (
                Some("198.18.0.0/17,fd00:1::/64"),
                Reason::DualStackUnsupported,
            ),
        ] {
            let mut overlay = json!({ "enabled": true });
            if let Some(cidr) = cidr {
                overlay["cidr"] = json!(cidr);
            }
            let wanted = [(field.to_owned(), reason)];
            assert_eq!(said(&with(&overlay)), wanted, "{cidr:?}");
        }
    }

    #[test]
    fn range_that_meets_the_tenant_clusters_own_is_refused_whether_asked_for_or_in_force() {
        let mut tc = cluster(&json!({
            "network": { "podCIDR": "10.0.0.0/16", "serviceCIDR": "10.96.0.0/16" },
            "addons": { "overlay": { "enabled": true, "cidr": "10.0.0.0/8" } },
        }));
        let field = "spec.addons.overlay.cidr".to_owned();
        let met = (field, Reason::CIDROverlap);
        assert_eq!(said(&tc), [met.clone(), met.clone()]);
        // Given by the operator.
        tc.spec.network = api::tenant_cluster::Network::default();
        assert_eq!(said(&tc), []);
        tc.status.get_or_insert_default().network = Some(api::tenant_cluster::NetworkStatus {
            pod_cidr: "10.128.0.0/18".to_owned(),
            service_cidr: "100.64.0.0/20".to_owned(),
            dns_domain: "cluster.local".to_owned(),
        });
        assert_eq!(said(&tc), [met]);
    }

    #[test]
    fn network_plugin_of_the_users_own_is_refused() {
        let tc = cluster(&json!({ "addons": {
            "cni": { "type": "none" }, "overlay": { "enabled": true, "cidr": "198.18.0.0/16" },
        }}));
        let wanted = (ENABLED.to_owned(), Reason::OverlayNeedsFlannel);
        assert_eq!(said(&tc), [wanted]);
    }

    #[test]
    fn range_of_the_management_cluster_is_refused_on_admission() {
        let mut settings = Settings::default();
        settings.network.reserved = vec!["198.18.7.0/24".parse().unwrap()];
        let tc = with(&json!({ "enabled": true, "cidr": "198.18.0.0/16" }));
        let problem = reserved(&tc, &settings).unwrap();
        assert_eq!(problem.reason, Reason::CIDRReserved);
        let other = with(&json!({ "enabled": true, "cidr": "198.19.0.0/16" }));
        assert_eq!(reserved(&other, &settings), None);
    }
}
